//! `Args`: the arguments of a method with the vectorcall convention.

use super::object::Obj;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple};
use std::cell::Cell;

/// The arguments of a call.
pub struct Args<'a> {
    py: Python<'a>,
    positional: &'a [Obj],
    /// The values of the keyword arguments.
    keywords: &'a [Obj],
    /// Their names.
    kwnames: Option<&'a Py<PyTuple>>,
    /// A bit for each keyword that [`Args::split`] used for a required argument.
    used: Cell<u64>,
}

/// The name of a keyword argument, which most callers pass as one of two objects.
pub struct Keyword {
    interned: Py<PyString>,
    /// The C implementation of `Task` always passes the same string, which is not interned. Row `A.task.sleep0`.
    other: PyOnceLock<Py<PyAny>>,
}

impl Keyword {
    pub fn new(interned: Py<PyString>) -> Self {
        Keyword { interned, other: PyOnceLock::new() }
    }

    #[inline]
    fn is(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> bool {
        name.is(&self.interned)
            || self.other.get(py).is_some_and(|other| name.is(other))
            || self.is_equal(py, name)
    }

    #[cold]
    fn is_equal(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> bool {
        // SAFETY: both are live strings: CPython checks keyword names.
        let is_equal = unsafe { ffi::PyUnicode_Compare(name.as_ptr(), self.interned.as_ptr()) } == 0;
        if is_equal {
            // Fails if another name is stored already, which is then compared each time.
            let _ = self.other.set(py, name.clone().unbind());
        }
        is_equal
    }
}

impl<'a> Args<'a> {
    /// # Safety
    /// The arguments are those that CPython passed to a `METH_FASTCALL | METH_KEYWORDS` function, and live for `'a`.
    #[inline]
    pub(super) unsafe fn new(
        py: Python<'a>,
        args: *const *mut ffi::PyObject,
        count: ffi::Py_ssize_t,
        kwnames: &'a *mut ffi::PyObject,
    ) -> Self {
        // SAFETY: CPython passes `count` positional arguments and after them one value for each name in the tuple
        // `kwnames`, which is null if there are none. PyO3 declares `Py` a transparent pointer.
        unsafe {
            let (named, kwnames) = if kwnames.is_null() {
                (0, None)
            } else {
                let names = &*std::ptr::from_ref(kwnames).cast::<Py<PyTuple>>();
                (ffi::PyTuple_GET_SIZE(*kwnames) as usize, Some(names))
            };
            let all = Obj::slice_from_ptrs(args, count as usize + named);
            let (positional, keywords) = all.split_at((count as usize).min(all.len()));
            Args { py, positional, keywords, kwnames, used: Cell::new(0) }
        }
    }

    /// The number of positional arguments.
    #[inline]
    pub fn positional_count(&self) -> usize {
        self.positional.len()
    }

    /// The arguments, if there are exactly `N` and all are given by position.
    #[inline]
    pub fn positional<const N: usize>(&self) -> Option<&'a [Obj; N]> {
        if self.keywords.is_empty() { self.positional.try_into().ok() } else { None }
    }

    /// The tuple of keyword names, if there are keywords.
    pub fn keyword_names(&self) -> Option<&'a Py<PyTuple>> {
        self.kwnames
    }

    /// The name of a keyword argument.
    #[inline]
    pub fn keyword_name(&self, index: usize) -> Option<Borrowed<'a, 'a, PyAny>> {
        // Checked first: the item of a wrong index would create an exception.
        let names = self.kwnames.filter(|_| index < self.keywords.len())?;
        names.bind(self.py).get_borrowed_item(index).ok()
    }

    /// All arguments: the positional ones, then the values of the keywords.
    #[inline]
    pub fn all(&self) -> impl Iterator<Item = &'a Obj> + 'a {
        self.positional.iter().chain(self.keywords)
    }

    /// `N` required arguments, given by position or by the name in `names`, and the remaining positional ones.
    #[inline]
    pub fn split<const N: usize>(
        &self,
        method: &str,
        names: [&str; N],
    ) -> PyResult<([&'a Obj; N], &'a [Obj])> {
        match self.positional.split_first_chunk::<N>() {
            Some((required, rest)) => Ok((required.each_ref(), rest)),
            None => Ok((self.by_name(method, names)?, &[])),
        }
    }

    /// Required arguments of which some are given by name.
    #[cold]
    fn by_name<const N: usize>(&self, method: &str, names: [&str; N]) -> PyResult<[&'a Obj; N]> {
        let mut found = Vec::with_capacity(N);
        for (index, name) in names.into_iter().enumerate() {
            if let Some(given) = self.positional.get(index) {
                found.push(given);
                continue;
            }
            // More than 64 keywords are more than any method here knows: they are refused later.
            let keyword = self.keywords.iter().take(64).enumerate().find(|(index, _)| {
                self.keyword_name(*index).is_some_and(|keyword| keyword.to_string() == name)
            });
            let Some((index, given)) = keyword else { return Err(missing(method, name)) };
            self.used.set(self.used.get() | 1 << index);
            found.push(given);
        }
        // There are `N`: one for each name.
        found.try_into().map_err(|_| missing(method, ""))
    }

    /// The only argument of a method, given by position or by name.
    #[inline]
    pub fn only(&self, method: &str, name: &str) -> PyResult<&'a Obj> {
        match (self.positional, self.keywords) {
            ([argument], []) => Ok(argument),
            _ => self.only_by_name(method, name),
        }
    }

    #[cold]
    fn only_by_name(&self, method: &str, name: &str) -> PyResult<&'a Obj> {
        let given = self.all().count();
        if given != 1 {
            return Err(PyTypeError::new_err(format!(
                "{method}() takes exactly one argument ({given} given)"
            )));
        }
        self.by_name(method, [name]).map(|[argument]| argument)
    }

    /// Optional arguments, given by position or by name.
    pub fn optional<const N: usize>(&self, method: &str, names: [&str; N]) -> PyResult<[Option<&'a Obj>; N]> {
        let mut found = [None; N];
        if self.positional.len() > N {
            return Err(PyTypeError::new_err(format!("{method}() takes at most {N} arguments")));
        }
        for (place, value) in found.iter_mut().zip(self.positional) {
            *place = Some(value);
        }
        for (index, value) in self.keywords.iter().enumerate() {
            let Some(name) = self.keyword_name(index) else { break };
            let name = name.to_string();
            let place = names.iter().zip(&mut found).find(|(known, _)| **known == name);
            let Some((_, place)) = place else { return Err(unexpected(method, &name)) };
            *place = Some(value);
        }
        Ok(found)
    }

    /// The value of a keyword argument, if it was given.
    pub fn find(&self, keyword: &Py<PyString>) -> Option<&'a Obj> {
        let is_it = |index| self.keyword_name(index).is_some_and(|name| name.eq(keyword).unwrap_or(false));
        self.keywords.iter().enumerate().find(|(index, _)| is_it(*index)).map(|(_, value)| value)
    }

    /// The value of the only keyword-only argument of a method.
    #[inline]
    pub fn keyword(&self, method: &str, keyword: &Keyword) -> PyResult<Option<&'a Obj>> {
        if self.keywords.is_empty() { Ok(None) } else { self.find_keyword(method, keyword) }
    }

    #[inline]
    fn find_keyword(&self, method: &str, keyword: &Keyword) -> PyResult<Option<&'a Obj>> {
        let mut found = None;
        for (index, value) in self.keywords.iter().enumerate() {
            if index < 64 && self.used.get() & 1 << index != 0 {
                continue;
            }
            let Some(name) = self.keyword_name(index) else { break };
            if keyword.is(self.py, &name) {
                found = Some(value);
            } else {
                return Err(unexpected(method, &name.to_string()));
            }
        }
        Ok(found)
    }
}

#[cold]
fn missing(method: &str, name: &str) -> PyErr {
    PyTypeError::new_err(format!("{method}() missing a required positional argument: '{name}'"))
}

#[cold]
fn unexpected(method: &str, name: &str) -> PyErr {
    PyTypeError::new_err(format!("{method}() got an unexpected keyword argument '{name}'"))
}
