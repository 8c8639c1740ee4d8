//! Enums whose variants are words in JSON, YAML, tables and on the command line.

/// Declares an enum whose variants each have one word, written once after the variant.
///
/// The enum has `ALL`, `as_str` and `parse`, and derives `Debug`, `Clone`, `Copy`, `PartialEq`, `Eq`, `Hash`,
/// `Serialize` and `Deserialize`, with the word as the variant's name; further traits are derived as usual. The calling
/// crate depends on `serde`. With `as NUMBER` after each word the enum also has `code` and `from_code`, for columns
/// that hold numbers.
#[macro_export]
macro_rules! words {
    (
        $(#[$about:meta])*
        $vis:vis enum $name:ident { $($(#[$inner:meta])* $variant:ident = $word:tt as $code:literal,)+ }
    ) => {
        $crate::words! { $(#[$about])* $vis enum $name { $($(#[$inner])* $variant = $word,)+ } }

        impl $name {
            /// Returns the number of a variant, as stored. The number never changes.
            pub const fn code(self) -> i16 {
                match self { $(Self::$variant => $code,)+ }
            }

            /// Returns the variant with this stored number.
            pub fn from_code(code: i16) -> Option<Self> {
                Self::ALL.into_iter().find(|known| known.code() == code)
            }
        }
    };
    // The word is a token, since `utoipa` does not see into the group that a literal becomes.
    (
        $(#[$about:meta])*
        $vis:vis enum $name:ident { $($(#[$inner:meta])* $variant:ident = $word:tt,)+ }
    ) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ::serde::Serialize, ::serde::Deserialize)]
        $(#[$about])*
        $vis enum $name { $($(#[$inner])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// Every variant, in the order of declaration.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// Returns the word of a variant.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// Returns the variant that `word` names.
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|known| known.as_str() == word)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    words! {
        /// An enum with words and numbers.
        #[derive(Default)]
        enum Fruit {
            /// The default.
            #[default]
            Apple = "apple" as 10,
            /// A word that no rule of renaming gives.
            SourCherry = "cherry, sour" as 12,
        }
    }

    #[test]
    fn words_numbers_and_json_name_the_same_variant() {
        assert_eq!(Fruit::ALL, [Fruit::default(), Fruit::SourCherry]);
        for fruit in Fruit::ALL {
            assert_eq!(Fruit::parse(fruit.as_str()), Some(fruit));
            assert_eq!(Fruit::from_code(fruit.code()), Some(fruit));
            assert_eq!(serde_json::to_value(fruit).ok(), Some(fruit.as_str().into()));
            assert_eq!(serde_json::from_value::<Fruit>(fruit.as_str().into()).ok(), Some(fruit));
        }
        assert_eq!((Fruit::parse("SourCherry"), Fruit::from_code(11)), (None, None));
    }
}
