//! The `#[test]` attribute of mainspring's test programs. It runs the body of the test in `test_support::checked`.

#![deny(missing_docs)]

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Runs the test in `test_support::checked`.
#[proc_macro_attribute]
pub fn test(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut item: Vec<TokenTree> = item.into_iter().collect();
    // The last token is the function body. The first parentheses are the parameters, because attributes are in
    // brackets. The return type is between the two.
    let parameters = item.iter().position(|token| is_group(token, Delimiter::Parenthesis));
    if let Some(parameters) = parameters
        && item.last().is_some_and(|token| is_group(token, Delimiter::Brace))
    {
        let mut closure = tokens("move ||");
        let output_and_body: Vec<TokenTree> = item.drain(parameters + 1..).collect();
        if output_and_body.len() == 1 {
            closure.extend(tokens("-> ()"));
        }
        closure.extend(output_and_body);
        let arguments = TokenTree::Group(Group::new(Delimiter::Parenthesis, closure));
        let mut call = tokens("::test_support::checked");
        call.extend([arguments]);
        item.push(TokenTree::Group(Group::new(Delimiter::Brace, call)));
    }
    let mut test = tokens("#[::core::prelude::v1::test]");
    test.extend(item);
    test
}

fn is_group(token: &TokenTree, delimiter: Delimiter) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == delimiter)
}

fn tokens(text: &str) -> TokenStream {
    // Every caller passes a literal that parses.
    text.parse().unwrap_or_default()
}
