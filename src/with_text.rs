//! A typed reason, culprit or doubt in a document: its tag and fields, together with `text`, the
//! sentence for people. Programs match the tag; the sentence may change. Pure.
//!
//! A field of type `T` has `#[serde(with = "WithText::<T>")]`, and a list of them
//! `#[serde(with = "TextList::<T>")]`, which also is the form for the schema. One that may be
//! absent has `#[serde(with = "with_text::option")]`, and for the schema `Option<WithText<T>>`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::Display;
use std::marker::PhantomData;

/// A value and its sentence.
#[derive(Debug, Serialize, Deserialize)]
pub struct WithText<T> {
    /// The value: a tag and its fields.
    #[serde(flatten)]
    value: T,
    /// The sentence that describes it.
    #[serde(default)]
    text: String,
}

/// The schema refers to the one definition of the type, which other fields refer to as well.
#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> schemars::JsonSchema for WithText<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("{}WithText", T::schema_name()).into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let value = generator.subschema_for::<T>();
        schemars::json_schema!({
            "description": "A value and its sentence.",
            "type": "object",
            "allOf": [value],
            "properties": {
                "text": { "description": "The sentence that describes it.", "type": "string" }
            },
            "required": ["text"]
        })
    }
}

impl<T> WithText<T> {
    /// As [`serialize`].
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error>
    where
        T: Serialize + Display,
    {
        serialize(value, serializer)
    }

    /// As [`deserialize`].
    ///
    /// # Errors
    /// Those of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error>
    where
        T: Deserialize<'de>,
    {
        deserialize(deserializer)
    }
}

/// A list of values with their sentences.
#[derive(Debug)]
pub struct TextList<T>(PhantomData<T>);

impl<T> TextList<T> {
    /// As [`list::serialize`].
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(values: &[T], serializer: S) -> Result<S::Ok, S::Error>
    where
        T: Serialize + Display,
    {
        list::serialize(values, serializer)
    }

    /// As [`list::deserialize`].
    ///
    /// # Errors
    /// Those of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error>
    where
        T: Deserialize<'de>,
    {
        list::deserialize(deserializer)
    }
}

#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> schemars::JsonSchema for TextList<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        Vec::<WithText<T>>::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Vec::<WithText<T>>::json_schema(generator)
    }
}

/// Writes a value together with its sentence.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<T: Serialize + Display, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    Serialize::serialize(&WithText { value, text: value.to_string() }, serializer)
}

/// Reads a value and ignores its sentence, which is generated again from the value.
///
/// # Errors
/// Those of the deserializer.
pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let with_text: WithText<T> = Deserialize::deserialize(deserializer)?;
    Ok(with_text.value)
}

/// The same for a value that may be absent.
pub mod option {
    use super::{Deserialize, Deserializer, Display, Serialize, Serializer, WithText};

    /// Writes the value, if there is one, together with its sentence.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<T: Serialize + Display, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value
            .as_ref()
            .map(|value| WithText { value, text: value.to_string() })
            .serialize(serializer)
    }

    /// Reads the value, if there is one.
    ///
    /// # Errors
    /// Those of the deserializer.
    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        let value = Option::<WithText<T>>::deserialize(deserializer)?;
        Ok(value.map(|with_text| with_text.value))
    }
}

/// The same for a list of values.
pub mod list {
    use super::{Deserialize, Deserializer, Display, Serialize, Serializer, WithText};

    /// Writes each value together with its sentence.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<T: Serialize + Display, S: Serializer>(
        values: &[T],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer
            .collect_seq(values.iter().map(|value| WithText { value, text: value.to_string() }))
    }

    /// Reads the values.
    ///
    /// # Errors
    /// Those of the deserializer.
    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<T>, D::Error> {
        let values = Vec::<WithText<T>>::deserialize(deserializer)?;
        Ok(values.into_iter().map(|with_text| with_text.value).collect())
    }
}

/// Checks that each value is saved with a tag of its own and its sentence, and is read again.
#[cfg(test)]
pub(crate) fn check_saved<T>(tag: &str, values: &[T])
where
    T: Serialize + serde::de::DeserializeOwned + Display + PartialEq + std::fmt::Debug,
{
    let mut tags = std::collections::BTreeSet::new();
    for value in values {
        let saved = serialize(value, serde_json::value::Serializer).unwrap();
        assert_eq!(saved["text"], value.to_string());
        assert!(tags.insert(saved[tag].as_str().unwrap().to_owned()), "twice: {saved}");
        let read: T = deserialize(saved).unwrap();
        assert_eq!(read, *value);
    }
}
