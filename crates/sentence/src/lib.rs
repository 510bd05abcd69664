//! `#[derive(Sentence)]`: a value is printed as the doc comment of its variant says. So a sentence
//! is written once, and the schemas and the docs have it too.
//!
//! The first paragraph of the comment is a format string: `{field}` is a field of the variant,
//! `{0}` the first one without a name. The full stop at its end is not printed. Attributes of a
//! variant:
//!
//! - `#[with(name = expression)]`: a value that the sentence, a line or a hint names.
//! - `#[line("file:  {place}")]`: one more line, indented. `#[line(word in words, "word:  {word}")]`
//!   is one for each item.
//! - `#[delegate]`: the only field is printed instead. With `#[delegate(from)]`, there is also a
//!   `From` that field.
//! - `#[print(write_rest(f, cpus))]`: an expression with the formatter `f` prints it instead.
//!
//! Attributes of an enum: with `#[stop]`, the full stops are printed; with `#[names]`, the names of
//! the variants, `in-kebab-case`. With `#[kind(Machine)]`, it is also a `crate::refusal::UserError`
//! of that kind. Its variants may have a `#[kind(Usage)]` of their own, and a
//! `#[hint("cpushield undo")]` or an expression with any number of hints. What is delegated has the
//! kind and the hints of its field, unless the variant has a kind. `#[message(expression)]` of the
//! enum replaces the sentence there. With `#[tagged]`, the reason is the tag of each variant,
//! `{ "tag": "no-shield" }`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, ExprLit, Field, Fields, Ident, Lit, LitStr, Meta,
    MetaNameValue, Result, Token,
};

/// Derives `Display`, and `Refusal` where an attribute asks for it.
#[proc_macro_derive(
    Sentence,
    attributes(with, line, delegate, print, hint, kind, message, tagged, names, stop)
)]
pub fn derive_sentence(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let mut arms: Vec<Arm> = match &input.data {
        Data::Enum(data) => {
            let arms = data.variants.iter().map(|variant| {
                let name = &variant.ident;
                Arm::new(&quote!(Self::#name), &name.to_string(), &variant.attrs, &variant.fields)
            });
            arms.collect::<Result<_>>()?
        }
        Data::Struct(data) => vec![Arm::new(&quote!(Self), "", &input.attrs, &data.fields)?],
        Data::Union(_) => return Err(Error::new_spanned(input, "a union has no sentence")),
    };
    if find(&input.attrs, "stop").is_none() {
        for arm in &mut arms {
            let end = arm.sentence.strip_suffix('.').map_or(arm.sentence.len(), str::len);
            arm.sentence.truncate(end);
        }
    }
    let (name, (generics, types, wheres)) = (&input.ident, input.generics.split_for_impl());
    let froms = froms(input);
    let patterns: Vec<&TokenStream> = arms.iter().map(|arm| &arm.pattern).collect();
    let names = find(&input.attrs, "names").is_some();
    let prints = arms.iter().map(|arm| if names { arm.print_tag() } else { arm.print() });
    let mut code = quote! {
        #[allow(unused_variables)]
        impl #generics ::std::fmt::Display for #name #types #wheres {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match self { #(#patterns => #prints,)* }
            }
        }
        #froms
    };
    if let Some(kind) = find(&input.attrs, "kind") {
        let (kind, tagged): (Expr, _) =
            (kind.parse_args()?, find(&input.attrs, "tagged").is_some());
        let kinds = arms.iter().map(|arm| arm.ask_or("kind", || quote!(#kind)));
        let message =
            find(&input.attrs, "message").map(Attribute::parse_args::<Expr>).transpose()?;
        let message = message.map_or(quote!(self.to_string()), |message| quote!(#message));
        let messages = arms.iter().map(|arm| arm.ask_or("message", || message.clone()));
        let reasons = arms.iter().map(|arm| match (tagged, &arm.tag) {
            (true, tag) => quote!(Some(::serde_json::json!({ "tag": #tag }))),
            (false, _) => arm.ask_or("reason", || quote!(None)),
        });
        let hints = arms.iter().map(Arm::hints);
        let stops = arms.iter().map(|arm| arm.ask_or("is_stop", || quote!(false)));
        code.extend(quote! {
            #[allow(unused_variables, unused_imports, clippy::enum_glob_use)]
            impl #generics crate::refusal::UserError for #name #types #wheres {
                fn kind(&self) -> crate::refusal::FailureKind {
                    use crate::refusal::FailureKind::*;
                    match self { #(#patterns => #kinds,)* }
                }
                fn message(&self) -> ::std::string::String {
                    match self { #(#patterns => #messages,)* }
                }
                fn hints(&self) -> ::std::vec::Vec<::std::string::String> {
                    match self { #(#patterns => #hints,)* }
                }
                fn reason(&self) -> ::std::option::Option<::serde_json::Value> {
                    match self { #(#patterns => #reasons,)* }
                }
                fn is_stop(&self) -> bool {
                    match self { #(#patterns => #stops,)* }
                }
            }
        });
    }
    Ok(code)
}

/// `From` the field of each variant with `#[delegate(from)]`.
fn froms(input: &DeriveInput) -> TokenStream {
    let Data::Enum(data) = &input.data else { return TokenStream::new() };
    let (name, (generics, types, wheres)) = (&input.ident, input.generics.split_for_impl());
    let froms = data.variants.iter().filter_map(|variant| {
        find(&variant.attrs, "delegate")?.meta.require_list().ok()?;
        let (Field { ident, ty, .. }, variant) = (variant.fields.iter().next()?, &variant.ident);
        let value = ident.as_ref().map_or(quote!((value)), |ident| quote!({ #ident: value }));
        Some(quote! {
            impl #generics ::std::convert::From<#ty> for #name #types #wheres {
                fn from(value: #ty) -> Self {
                    Self::#variant #value
                }
            }
        })
    });
    froms.collect()
}

/// What a variant says.
struct Arm {
    pattern: TokenStream,
    /// Its name in kebab case.
    tag: String,
    sentence: String,
    /// `let (name,) = (expression,);` of each `#[with]`.
    bindings: TokenStream,
    lines: Vec<Line>,
    print: Option<Expr>,
    /// The field that speaks for it.
    delegate: Option<Ident>,
    kind: Option<Expr>,
    hints: Vec<Expr>,
}

impl Arm {
    fn new(path: &TokenStream, name: &str, attrs: &[Attribute], fields: &Fields) -> Result<Arm> {
        let names = fields
            .iter()
            .enumerate()
            .map(|(n, field)| field.ident.clone().unwrap_or_else(|| format_ident!("_{n}")));
        let names: Vec<Ident> = names.collect();
        let mut sentence = first_paragraph(attrs);
        for n in 0..names.len() {
            sentence = sentence.replace(&format!("{{{n}"), &format!("{{_{n}"));
        }
        let all = |name| attrs.iter().filter(move |attr| attr.path().is_ident(name));
        let mut bindings = TokenStream::new();
        for attr in all("with") {
            let values = Punctuated::<MetaNameValue, Token![,]>::parse_terminated;
            let values = attr.parse_args_with(values)?;
            let (names, values) =
                (values.iter().map(|it| &it.path), values.iter().map(|it| &it.value));
            bindings.extend(quote!(let (#(#names,)*) = (#(#values,)*);));
        }
        let delegates = find(attrs, "delegate").is_some();
        Ok(Arm {
            pattern: match fields {
                Fields::Named(_) => quote!(#path { #(#names),* }),
                Fields::Unnamed(_) => quote!(#path(#(#names),*)),
                Fields::Unit => path.clone(),
            },
            tag: kebab_case(name),
            sentence,
            bindings,
            lines: all("line").map(Attribute::parse_args).collect::<Result<_>>()?,
            print: find(attrs, "print").map(Attribute::parse_args).transpose()?,
            delegate: names.into_iter().next().filter(|_| delegates),
            kind: find(attrs, "kind").map(Attribute::parse_args).transpose()?,
            hints: all("hint").map(Attribute::parse_args).collect::<Result<_>>()?,
        })
    }

    fn print_tag(&self) -> TokenStream {
        let tag = &self.tag;
        quote!(f.pad(#tag))
    }

    fn print(&self) -> TokenStream {
        if let Some(field) = &self.delegate {
            return quote!(::std::fmt::Display::fmt(#field, f));
        }
        if let Some(print) = &self.print {
            return quote!(#print);
        }
        let Arm { sentence, bindings, .. } = self;
        if !sentence.contains('{') && self.lines.is_empty() {
            return quote!(f.pad(#sentence));
        }
        let lines = self.lines.iter().map(|Line { each, text, values }| {
            let text = format!("\n  {}", text.value());
            let print = quote!(::std::write!(f, #text #values)?;);
            match each {
                None => print,
                Some((name, all)) => {
                    let all = quote!(::std::iter::IntoIterator::into_iter(#all));
                    quote!(for #name in #all { #print })
                }
            }
        });
        quote!({ #bindings ::std::write!(f, #sentence)?; #(#lines)* Ok(()) })
    }

    /// What the field says to this question, if it speaks for the variant.
    fn ask_or(&self, question: &str, own: impl FnOnce() -> TokenStream) -> TokenStream {
        let question = format_ident!("{question}");
        match (&self.kind, &self.delegate) {
            (Some(kind), _) if question == "kind" => quote!(#kind),
            (None, Some(field)) => quote!(crate::refusal::UserError::#question(#field)),
            _ => own(),
        }
    }

    fn hints(&self) -> TokenStream {
        let (first, bindings) =
            (self.ask_or("hints", || quote!(::std::vec::Vec::new())), &self.bindings);
        let hints = self.hints.iter().map(|hint| match hint {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
                quote!(all_hints.push(::std::format!(#text));)
            }
            hints => quote!(all_hints.extend((#hints).into_iter().map(|hint| hint.to_string()));),
        });
        let hints: TokenStream = hints.collect();
        if hints.is_empty() {
            first
        } else {
            let all = quote!(let mut all_hints: ::std::vec::Vec<::std::string::String>);
            quote!({ #bindings #all = #first; #hints all_hints })
        }
    }
}

/// `"text"`, or `name in expression, "text"`, each with values as in `write!`.
struct Line {
    each: Option<(Ident, Expr)>,
    text: LitStr,
    values: TokenStream,
}

impl Parse for Line {
    fn parse(input: ParseStream<'_>) -> Result<Line> {
        let mut each = None;
        if !input.peek(LitStr) {
            let name = input.parse()?;
            input.parse::<Token![in]>()?;
            each = Some((name, input.parse()?));
            input.parse::<Token![,]>()?;
        }
        Ok(Line { each, text: input.parse()?, values: input.parse()? })
    }
}

fn find<'a>(attrs: &'a [Attribute], name: &str) -> Option<&'a Attribute> {
    attrs.iter().find(|attr| attr.path().is_ident(name))
}

/// The first paragraph of the doc comment.
fn first_paragraph(attrs: &[Attribute]) -> String {
    let lines = attrs.iter().filter_map(|attr| match &attr.meta {
        Meta::NameValue(MetaNameValue { path, value: Expr::Lit(text), .. })
            if path.is_ident("doc") =>
        {
            let ExprLit { lit: Lit::Str(text), .. } = text else { return None };
            Some(text.value().trim().to_owned())
        }
        _ => None,
    });
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// `NoSuchShield` as `no-such-shield`.
fn kebab_case(name: &str) -> String {
    let parts = name.chars().enumerate().map(|(at, c)| match (at, c.is_uppercase()) {
        (0, _) | (_, false) => c.to_lowercase().to_string(),
        _ => format!("-{}", c.to_lowercase()),
    });
    parts.collect()
}
