//! JSON text of what the service keeps and answers, byte for byte as `serde_json` writes it. In: anything that can be
//! serialised, but raw values. Out: its compact text. An event is mostly texts; the library looks at them byte by byte,
//! which took longer than to read them. Here they are copied in runs, and eight bytes at a time are looked at.

use std::{
    fmt,
    io::{self, Write},
};

use serde::{Serialize, Serializer, ser};
use serde_json::Error;

/// The compact JSON of a value, in a buffer that begins with so much room.
///
/// # Errors
/// A key of an object is no text, or the value refuses to be serialised.
pub fn written<T: Serialize + ?Sized>(value: &T, room: usize) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(room);
    value.serialize(Json(&mut out))?;
    Ok(out)
}

/// Bytes of the compact JSON of a value, counted without keeping it; the most there are where it cannot be written.
pub fn encoded_len<T: Serialize + ?Sized>(value: &T) -> usize {
    struct ByteCount(usize);
    impl Write for ByteCount {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = ByteCount(0);
    serde_json::to_writer(&mut count, value).map_or(usize::MAX, |()| count.0)
}

/// Writes one value.
struct Json<'o>(&'o mut Vec<u8>);

impl<'o> Json<'o> {
    fn open(self, open: u8, close: &'static [u8]) -> Parts<'o> {
        self.0.push(open);
        Parts { out: self.0, close, first: true }
    }

    /// Begins a variant with content: an object whose one member is named after it.
    fn named(self, variant: &str) -> Self {
        self.0.push(b'{');
        quoted(self.0, variant);
        self.0.push(b':');
        self
    }

    /// Numbers, whose form is the library's.
    fn number(self, number: impl Serialize) -> Result<(), Error> {
        serde_json::to_writer(self.0, &number)
    }
}

/// Writes the parts of an array or an object.
struct Parts<'o> {
    out: &'o mut Vec<u8>,
    /// Written behind the last one.
    close: &'static [u8],
    first: bool,
}

impl Parts<'_> {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        value.serialize(Json(self.out))
    }

    fn member<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.out.push(b':');
        value.serialize(Json(self.out))
    }

    fn close(self) {
        self.out.extend_from_slice(self.close);
    }
}

fn quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    escape(out, text.as_bytes());
    out.push(b'"');
}

fn escape(out: &mut Vec<u8>, mut text: &[u8]) {
    while let Some((plain, [byte, rest @ ..])) = special(text).and_then(|at| text.split_at_checked(at)) {
        out.extend_from_slice(plain);
        let letter = match byte {
            b'\n' => b'n',
            b'\t' => b't',
            b'\r' => b'r',
            0x08 => b'b',
            0x0c => b'f',
            b'"' | b'\\' => *byte,
            _ => b'u',
        };
        out.extend_from_slice(&[b'\\', letter]);
        if letter == b'u' {
            // Memory takes every byte.
            let _ = write!(out, "{byte:04x}");
        }
        text = rest;
    }
    out.extend_from_slice(text);
}

/// Where the first byte stands that must be escaped: a control character, a quotation mark or a backslash.
fn special(text: &[u8]) -> Option<usize> {
    let (eights, _) = text.as_chunks::<8>();
    if let Some(found) = eights.iter().enumerate().find_map(|(at, eight)| Some(8 * at + special_of(*eight)?)) {
        return Some(found);
    }
    match text.last_chunk::<8>() {
        // What the last eight share with those before them needs no escape.
        Some(last) => special_of(*last).map(|at| text.len() - last.len() + at),
        None => text.iter().position(|byte| matches!(byte, 0..0x20 | b'"' | b'\\')),
    }
}

fn special_of(eight: [u8; 8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    let word = u64::from_le_bytes(eight);
    // The highest bit of a byte, and perhaps of some behind it, says that it is below the bound.
    let below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word;
    let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let found = (below(word, 0x20) | is(b'"') | is(b'\\')) & (ONES << 7);
    (found != 0).then(|| found.trailing_zeros() as usize / 8)
}

/// Texts that come in pieces.
struct Pieces<'o>(&'o mut Vec<u8>);

impl fmt::Write for Pieces<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        escape(self.0, piece.as_bytes());
        Ok(())
    }
}

macro_rules! numbers {
    ($($method:ident $type:ty,)*) => {
        $(fn $method(self, value: $type) -> Result<(), Error> {
            self.number(value)
        })*
    };
}

impl<'o> Serializer for Json<'o> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Parts<'o>;
    type SerializeTuple = Parts<'o>;
    type SerializeTupleStruct = Parts<'o>;
    type SerializeTupleVariant = Parts<'o>;
    type SerializeMap = Parts<'o>;
    type SerializeStruct = Parts<'o>;
    type SerializeStructVariant = Parts<'o>;

    numbers! {
        serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64, serialize_i128 i128,
        serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64, serialize_u128 u128,
        serialize_f32 f32, serialize_f64 f64,
    }

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.0.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, text: &str) -> Result<(), Error> {
        quoted(self.0, text);
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Error> {
        self.collect_seq(bytes)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.0.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let Json(out) = self.named(variant);
        value.serialize(Json(out))?;
        out.push(b'}');
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Parts<'o>, Error> {
        Ok(self.open(b'[', b"]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Parts<'o>, Error> {
        Ok(self.open(b'[', b"]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Parts<'o>, Error> {
        Ok(self.open(b'[', b"]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Parts<'o>, Error> {
        Ok(self.named(variant).open(b'[', b"]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Parts<'o>, Error> {
        Ok(self.open(b'{', b"}"))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Parts<'o>, Error> {
        Ok(self.open(b'{', b"}"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Parts<'o>, Error> {
        Ok(self.named(variant).open(b'{', b"}}"))
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        self.0.push(b'"');
        fmt::Write::write_fmt(&mut Pieces(self.0), format_args!("{value}")).map_err(ser::Error::custom)?;
        self.0.push(b'"');
        Ok(())
    }
}

macro_rules! arrays {
    ($($name:ident $method:ident,)*) => {
        $(impl ser::$name for Parts<'_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.item(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        })*
    };
}

arrays! {
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field,
}

macro_rules! objects {
    ($($name:ident)*) => {
        $(impl ser::$name for Parts<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
                self.item(name)?;
                self.member(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        })*
    };
}

objects! { SerializeStruct SerializeStructVariant }

impl ser::SerializeMap for Parts<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        let at = self.out.len() + usize::from(!self.first);
        self.item(key)?;
        if self.out.get(at) == Some(&b'"') { Ok(()) } else { Err(ser::Error::custom("a key must be a text")) }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.member(value)
    }

    fn end(self) -> Result<(), Error> {
        self.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::written;

    fn same<T: serde::Serialize>(value: &T) {
        let ours = written(value, 0).map(|text| String::from_utf8_lossy(&text).into_owned());
        assert_eq!(ours.ok(), serde_json::to_string(value).ok());
    }

    #[test]
    fn every_shape_is_written_as_the_library_writes_it() {
        #[derive(serde::Serialize)]
        enum Any {
            Bare,
            One(u8),
            Two(bool, Option<char>),
            Named { a: f64, b: () },
        }
        #[derive(serde::Serialize)]
        struct Whole(i64, &'static str);
        same(&[Any::Bare, Any::One(7), Any::Two(true, Some('"')), Any::Two(false, None), Any::Named { a: 0.1, b: () }]);
        same(&[Any::Named { a: f64::NAN, b: () }, Any::Named { a: 1e300, b: () }, Any::Named { a: 3.0, b: () }]);
        same(&(Whole(i64::MIN, "a\u{7f}\u{85}é"), u64::MAX, 1.5_f32, [0_u8; 0]));
        same(&json!({"b": [], "a": {}, "c": [null, true, -1, 2.5, "\u{0}\u{8}\u{c}\u{1f} \n\r\t\\\"/<\u{2028}"]}));
        assert!(written(&BTreeMap::from([(None::<&str>, 1)]), 0).is_err(), "a key that is no text");
    }

    fn value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![any::<String>(), "[a-z \"\\\\\n\u{0}-\u{1f}\u{7e}-\u{ff}]{0,40}"];
        let leaf = prop_oneof![
            text.clone().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 30, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(text.clone(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_json_is_written_as_the_library_writes_it(value in value()) {
            same(&value);
        }
    }
}
