//! `named!`: a unit enum with a tag for documents, a text for tables and, where it has one, the
//! cause that it is counted under. Pure.

/// Makes a unit enum with a fixed text for each variant, and a list of all of them. With
/// `by cause`, each variant also has the cause that it is counted under.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident by cause {
        $($(#[$doc:meta])* $variant:ident: $cause:ident => $text:literal,)*
    }) => {
        named! { $(#[$meta])* $name { $($(#[$doc])* $variant => $text,)* } }

        impl $name {
            /// The cause that it is counted under.
            #[must_use]
            pub const fn cause(self) -> $crate::causes::Cause {
                match self { $($name::$variant => $crate::causes::Cause::$cause,)* }
            }
        }
    };
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident => $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "kebab-case")]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All values.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// The text in tables.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }

            /// The value that tables show as this text; `None` for another text.
            #[must_use]
            pub fn from_text(text: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|value| value.text() == text)
            }

            /// The value with this tag, as JSON documents have it; `None` for another word.
            #[must_use]
            pub fn from_tag(tag: &str) -> Option<$name> {
                use serde::de::IntoDeserializer;
                let tag: serde::de::value::StrDeserializer<'_, serde::de::value::Error> =
                    tag.into_deserializer();
                serde::Deserialize::deserialize(tag).ok()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.text())
            }
        }
    };
}
