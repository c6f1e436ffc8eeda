//! The attribute `#[test]` of mainspring's test programs: as the usual one, but what the test does is handed to the
//! program's `leak_check::checked`.
//!
//! A program says `#[macro_use] extern crate checked_test;` at its top, and every `#[test]` in it is this one.

#![deny(missing_docs)]

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// A test that is run by `crate::leak_check::checked`.
#[proc_macro_attribute]
pub fn test(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut item: Vec<TokenTree> = item.into_iter().collect();
    // The body of a function is its last token.
    if let Some(TokenTree::Group(body)) = item.last()
        && body.delimiter() == Delimiter::Brace
    {
        let closure: TokenStream =
            [tokens("move ||"), TokenTree::Group(body.clone()).into()].into_iter().collect();
        let arguments = TokenTree::Group(Group::new(Delimiter::Parenthesis, closure)).into();
        let call: TokenStream = [tokens("crate::leak_check::checked"), arguments].into_iter().collect();
        item.pop();
        item.push(TokenTree::Group(Group::new(Delimiter::Brace, call)));
    }
    let mut test = tokens("#[::core::prelude::v1::test]");
    test.extend(item);
    test
}

fn tokens(text: &str) -> TokenStream {
    // The texts above are tokens.
    text.parse().unwrap_or_default()
}
