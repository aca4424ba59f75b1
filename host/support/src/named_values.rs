//! Enums whose values have names in metrics, logs and spans. The names are an interface.

/// Declares such an enum, with a list of the names in the order of the values.
#[macro_export]
macro_rules! named_values {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$about_value:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$about_value])* $value,)+ }

        impl $name {
            pub const NAMES: &'static [&'static str] = &[$($text,)+];

            pub fn name(self) -> &'static str {
                match self { $(Self::$value => $text,)+ }
            }
        }
    };
}
