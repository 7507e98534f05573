//! Field types that take several forms.

use serde::de::{
    Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};
use std::borrow::Cow;
use std::fmt;

/// `seed`: any integer of 64 bits, signed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub u64);

impl<'de> Deserialize<'de> for Seed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SeedVisitor;
        impl Visitor<'_> for SeedVisitor {
            type Value = Seed;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number of at most 64 bits")
            }
            fn visit_u64<E>(self, value: u64) -> Result<Seed, E> {
                Ok(Seed(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Seed, E> {
                Ok(Seed(value.cast_unsigned()))
            }
        }
        deserializer.deserialize_any(SeedVisitor)
    }
}

/// `stop`: a string or an array of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stop(pub Vec<String>);

impl<'de> Deserialize<'de> for Stop {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StopVisitor;
        impl<'de> Visitor<'de> for StopVisitor {
            type Value = Stop;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an array of strings")
            }
            fn visit_str<E>(self, text: &str) -> Result<Stop, E> {
                Ok(Stop(vec![text.to_owned()]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Stop, A::Error> {
                let mut all = Vec::new();
                while let Some(text) = seq.next_element()? {
                    all.push(text);
                }
                Ok(Stop(all))
            }
        }
        deserializer.deserialize_any(StopVisitor)
    }
}

/// `stream_options`: an object, of which one field matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamOptions {
    /// End the stream with a chunk that has the usage.
    pub include_usage: Option<bool>,
}

impl<'de> Deserialize<'de> for StreamOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OptionsVisitor;
        impl<'de> Visitor<'de> for OptionsVisitor {
            type Value = StreamOptions;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StreamOptions, A::Error> {
                let mut options = StreamOptions::default();
                while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                    if key == "include_usage" {
                        options.include_usage = map.next_value()?;
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(options)
            }
        }
        // A derived one would take an array, too, field by field.
        deserializer.deserialize_any(OptionsVisitor)
    }
}

/// `prompt` of a completion: one or many, as text or as token ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompts {
    /// Texts.
    Texts(Vec<String>),
    /// One prompt as token ids.
    Tokens(Vec<u32>),
    /// Several prompts as token ids.
    TokenLists(Vec<Vec<u32>>),
}

const PROMPT_FORMS: &str =
    "a string, an array of strings, an array of token ids or an array of arrays of token ids";

impl<'de> Deserialize<'de> for Prompts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PromptsVisitor;
        impl<'de> Visitor<'de> for PromptsVisitor {
            type Value = Prompts;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(PROMPT_FORMS)
            }
            fn visit_str<E>(self, text: &str) -> Result<Prompts, E> {
                Ok(Prompts::Texts(vec![text.to_owned()]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Prompts, A::Error> {
                let mut prompts = match seq.next_element()? {
                    None => return Ok(Prompts::Texts(Vec::new())),
                    Some(Item::Text(text)) => Prompts::Texts(vec![text]),
                    Some(Item::Token(token)) => Prompts::Tokens(vec![token]),
                    Some(Item::List(tokens)) => Prompts::TokenLists(vec![tokens]),
                };
                while let Some(item) = seq.next_element()? {
                    match (&mut prompts, item) {
                        (Prompts::Texts(all), Item::Text(text)) => all.push(text),
                        (Prompts::Tokens(all), Item::Token(token)) => all.push(token),
                        (Prompts::TokenLists(all), Item::List(tokens)) => all.push(tokens),
                        _ => {
                            return Err(A::Error::custom(format!("a mix of forms, expected {PROMPT_FORMS}")));
                        }
                    }
                }
                Ok(prompts)
            }
        }
        deserializer.deserialize_any(PromptsVisitor)
    }
}

/// An element of `prompt`.
enum Item {
    Text(String),
    Token(u32),
    List(Vec<u32>),
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemVisitor;
        impl<'de> Visitor<'de> for ItemVisitor {
            type Value = Item;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a token id or an array of token ids")
            }
            fn visit_str<E>(self, text: &str) -> Result<Item, E> {
                Ok(Item::Text(text.to_owned()))
            }
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Item, E> {
                let id =
                    u32::try_from(value).map_err(|_| E::invalid_value(Unexpected::Unsigned(value), &self))?;
                Ok(Item::Token(id))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Item, A::Error> {
                let mut tokens = Vec::new();
                while let Some(token) = seq.next_element()? {
                    tokens.push(token);
                }
                Ok(Item::List(tokens))
            }
        }
        deserializer.deserialize_any(ItemVisitor)
    }
}
