//! Declaration of a section of the settings: each key once, with its description, type, default and shape.

use super::super::keys::{Keys, Record, Shape};

/// A part of the settings that can be read over its defaults.
pub(crate) trait Section: Default {
    /// Description of the section.
    const ABOUT: &'static str;

    /// Declares every key: reads the keys that are present into `self`, or describes them.
    fn declare(&mut self, keys: &mut Keys<'_>);
}

/// Returns the shape of a section within a section.
pub(super) fn nested<S: Section>() -> impl Shape<Value = S> {
    Record(|keys: &mut Keys<'_>| {
        let mut section = S::default();
        section.declare(keys);
        Some(section)
    })
}

/// Generates a section from one list: the struct, its defaults and its reading. `and` lists fields that the caller reads.
/// `rules` checks relations between keys, after they were read.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $( #[derive($derive:ident)] )?
        $name:ident {
            $( $(#[doc = $doc:literal])+ $key:ident: $type:ty = $default:expr, $shape:expr; )+
        }
        $( and { $( $(#[doc = $field_doc:literal])+ $field:ident: $field_type:ty = $field_default:expr; )+ } )?
        $( rules $rules:expr; )?
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone $(, $derive)?)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $key: $type, )+
            $($( $(#[doc = $field_doc])+ pub $field: $field_type, )+)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $key: $default, )+ $($( $field: $field_default, )+)? }
            }
        }

        impl $crate::settings::section::Section for $name {
            const ABOUT: &'static str = concat!($($about),+);

            fn declare(&mut self, keys: &mut $crate::keys::Keys<'_>) {
                $( keys.set(stringify!($key), concat!($($doc),+), $shape, &mut self.$key); )+
                $( let rules: fn(&mut Self, &mut $crate::keys::Keys<'_>) = $rules; rules(self, keys); )?
            }
        }
    };
}

pub(super) use section;
