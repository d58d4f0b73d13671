//! `#[derive(Tree)]`: any struct or enum of tensors and trees as a tree with named leaves.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Data, DeriveInput, Error, Field, Fields, GenericArgument, Ident, Index, PathArguments, Result, Type,
    parse_macro_input, parse_quote,
};

/// Makes a structure a tree: its fields are trees, except those marked `#[tree(static)]`, which are cloned and are part
/// of the definition of the tree. Static fields implement `Clone` and `Hash`; `f32` and `f64` are hashed by their bits,
/// also inside of options, vectors, boxes, references, slices, arrays and tuples.
#[proc_macro_derive(Tree, attributes(tree))]
pub fn derive_tree(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(input).unwrap_or_else(|error| error.to_compile_error()).into()
}

fn expand(mut input: DeriveInput) -> Result<TokenStream> {
    let variants: Vec<(TokenStream, Fields)> = match &input.data {
        Data::Struct(data) => vec![(quote!(Self), data.fields.clone())],
        Data::Enum(data) => data
            .variants
            .iter()
            .map(|variant| {
                let name = &variant.ident;
                (quote!(Self::#name), variant.fields.clone())
            })
            .collect(),
        Data::Union(_) => {
            let message = "a union cannot be a tree: which of its fields is there is not known";
            return Err(Error::new_spanned(&input.ident, message));
        }
    };
    let mut parts = TokenStream::new();
    let mut cloned = TokenStream::new();
    for field in variants.iter().flat_map(|(_, fields)| fields) {
        let kind = if is_static(field)? { &mut cloned } else { &mut parts };
        field.ty.to_tokens(kind);
    }
    for parameter in input.generics.type_params_mut() {
        // A parameter that only static fields use need not be a tree.
        if mentions(&parts, &parameter.ident) {
            parameter.bounds.push(parse_quote!(::glassgrad::tree::Tree));
        }
        if mentions(&cloned, &parameter.ident) {
            parameter.bounds.push(parse_quote!(::std::clone::Clone));
            parameter.bounds.push(parse_quote!(::std::hash::Hash));
        }
    }
    let (mut visits, mut visits_mut, mut rebuilds, mut defines) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (number, (constructor, fields)) in variants.iter().enumerate() {
        let number = matches!(input.data, Data::Enum(_)).then_some(number);
        let [visit, visit_mut, rebuild, define] = arms(number, constructor, fields)?;
        visits.push(visit);
        visits_mut.push(visit_mut);
        rebuilds.push(rebuild);
        defines.push(define);
    }
    // A reference to an enum without variants needs to be looked through to be seen to be impossible.
    let subject = if variants.is_empty() { quote!(*self) } else { quote!(self) };
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics ::glassgrad::tree::Tree for #name #type_generics #where_clause {
            #[allow(unused_variables)]
            fn visit(
                &self,
                branch: &::glassgrad::tree::Branch<'_>,
                visitor: &mut dyn ::std::ops::FnMut(&::glassgrad::tree::Branch<'_>, &::glassgrad::Tensor),
            ) {
                match #subject { #(#visits)* }
            }
            #[allow(unused_variables)]
            fn visit_mut(
                &mut self,
                branch: &::glassgrad::tree::Branch<'_>,
                visitor: &mut dyn ::std::ops::FnMut(&::glassgrad::tree::Branch<'_>, &mut ::glassgrad::Tensor),
            ) {
                match #subject { #(#visits_mut)* }
            }
            #[allow(unused_variables)]
            fn rebuild(
                &self,
                branch: &::glassgrad::tree::Branch<'_>,
                leaf: &mut dyn ::std::ops::FnMut(
                    &::glassgrad::tree::Branch<'_>,
                    &::glassgrad::Tensor,
                ) -> ::glassgrad::Tensor,
            ) -> Self {
                match #subject { #(#rebuilds)* }
            }
            #[allow(unused_variables)]
            fn define(&self, definition: &mut ::glassgrad::tree::Definition) {
                match #subject { #(#defines)* }
            }
        }
    })
}

/// The match arms of one variant: one that visits its fields, one that visits them to change them, one that rebuilds
/// them, one that adds them to a definition. `number` is that of the variant of an enum.
fn arms(number: Option<usize>, constructor: &TokenStream, fields: &Fields) -> Result<[TokenStream; 4]> {
    let variant = number.map(|number| quote!(definition.number(#number);));
    let mut members = Vec::new();
    let mut bindings: Vec<Ident> = Vec::new();
    let (mut visits, mut visits_mut, mut rebuilt, mut defined) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (number, field) in fields.iter().enumerate() {
        let binding = format_ident!("field_{number}");
        let label = field
            .ident
            .as_ref()
            .map_or_else(|| number.to_string(), |name| name.to_string().trim_start_matches("r#").to_owned());
        let member = field.ident.clone().map_or_else(|| syn::Member::from(number), syn::Member::from);
        if is_static(field)? {
            rebuilt.push(quote!(::std::clone::Clone::clone(#binding)));
            defined.push(define_static(&field.ty, &quote!(#binding)));
        } else {
            visits.push(quote!(::glassgrad::tree::Tree::visit(#binding, &branch.child(#label), visitor);));
            visits_mut.push(quote!(::glassgrad::tree::Tree::visit_mut(#binding, &branch.child(#label), visitor);));
            rebuilt.push(quote!(::glassgrad::tree::Tree::rebuild(#binding, &branch.child(#label), leaf)));
            defined.push(quote!(::glassgrad::tree::Tree::define(#binding, definition);));
        }
        members.push(member);
        bindings.push(binding);
    }
    Ok([
        quote!(#constructor { #(#members: #bindings),* } => { #(#visits)* }),
        quote!(#constructor { #(#members: #bindings),* } => { #(#visits_mut)* }),
        quote!(#constructor { #(#members: #bindings),* } => #constructor { #(#members: #rebuilt),* },),
        quote!(#constructor { #(#members: #bindings),* } => { #variant #(#defined)* }),
    ])
}

/// Adds a static value, given as an expression of a reference to it, to a definition.
fn define_static(kind: &Type, value: &TokenStream) -> TokenStream {
    let elements = |element: &Type| {
        let each = define_static(element, &quote!(element));
        quote! {
            definition.number(#value.len());
            for element in #value.iter() { #each }
        }
    };
    match kind {
        Type::Paren(inner) => define_static(&inner.elem, value),
        Type::Group(inner) => define_static(&inner.elem, value),
        Type::Reference(inner) => define_static(&inner.elem, &quote!((&**#value))),
        Type::Array(array) => elements(&array.elem),
        Type::Slice(slice) => elements(&slice.elem),
        Type::Tuple(tuple) => {
            let members = tuple.elems.iter().enumerate().map(|(number, kind)| {
                let index = Index::from(number);
                define_static(kind, &quote!((&#value.#index)))
            });
            quote!(#(#members)*)
        }
        Type::Path(path) => {
            let last = path.path.segments.last();
            let argument = last.and_then(|segment| match &segment.arguments {
                PathArguments::AngleBracketed(list) if list.args.len() == 1 => match &list.args[0] {
                    GenericArgument::Type(kind) => Some(kind),
                    _ => None,
                },
                _ => None,
            });
            let name = last.map(|segment| segment.ident.to_string()).unwrap_or_default();
            match (name.as_str(), argument) {
                ("f32" | "f64", None) => quote!(definition.float(*#value);),
                ("Box", Some(inner)) => define_static(inner, &quote!((&**#value))),
                // An option of one element is a list of at most one.
                ("Option" | "Vec", Some(inner)) => {
                    let each = define_static(inner, &quote!(element));
                    quote! {
                        definition.number(#value.iter().len());
                        for element in #value.iter() { #each }
                    }
                }
                _ => quote_spanned!(kind.span()=> definition.value(#value);),
            }
        }
        _ => quote_spanned!(kind.span()=> definition.value(#value);),
    }
}

/// Whether a name occurs in some types.
fn mentions(types: &TokenStream, name: &Ident) -> bool {
    types.clone().into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *name,
        TokenTree::Group(group) => mentions(&group.stream(), name),
        _ => false,
    })
}

/// Whether a field is marked `#[tree(static)]`.
fn is_static(field: &Field) -> Result<bool> {
    let mut found = false;
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("tree")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("static") {
                found = true;
                return Ok(());
            }
            Err(meta.error("unknown attribute of a tree; there is #[tree(static)], for fields that are no trees"))
        })?;
    }
    Ok(found)
}
