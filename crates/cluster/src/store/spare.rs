//! Reads an object without the fields that nobody keeps.
//!
//! Owns the reading of answers field by field, for stores and for live looks: what is left out is skipped in the text and
//! never built. `managedFields` are always left out; they are as long as the object itself, and a tree of
//! small values. A store that keeps a view names the fields that the view is made of. Must not change what is read of any other
//! field. Written here because serde has no way to leave out fields of a type that somebody else has defined.

use std::fmt;
use std::marker::PhantomData;

use kube::Resource;
use kube::api::{Api, GetParams, ListParams, ObjectList, Request};
use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde::{Deserialize, Deserializer};

use super::Kept;
use crate::error::call;

/// Of which structs only some fields are read, and which.
pub type Fields = &'static [(&'static str, &'static [&'static str])];

/// An object of which only those fields were read that `V` is made of.
pub(super) struct Spare<K, V> {
    pub(super) object: K,
    kept_as: PhantomData<fn() -> V>,
}

impl<K: Clone, V> Clone for Spare<K, V> {
    fn clone(&self) -> Self {
        Self {
            object: self.object.clone(),
            kept_as: PhantomData,
        }
    }
}

impl<'de, K: Deserialize<'de>, V: Kept> Deserialize<'de> for Spare<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let sparing = Sparing {
            inner: deserializer,
            fields: V::FIELDS,
        };
        Ok(Self {
            object: K::deserialize(sparing)?,
            kept_as: PhantomData,
        })
    }
}

/// Reads one object live, but does not wait for ever; only those fields of it are read that a `V` is made
/// of.
pub async fn get_opt<K, V>(api: &Api<K>, name: &str) -> crate::error::Result<Option<K>>
where
    K: Resource + Clone + DeserializeOwned,
    K::DynamicType: Default,
    V: Kept,
{
    let object = format!("{} {name}", K::kind(&K::DynamicType::default()));
    let request = async {
        let request = Request::new(api.resource_url()).get(name, &GetParams::default());
        let request = request.map_err(kube::Error::BuildRequest)?;
        let client = api.clone().into_client();
        match client.request::<Spare<K, V>>(request).await {
            Ok(found) => Ok(Some(found.object)),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    };
    call("get", object, request).await
}

/// The same for a list: its objects, and whether there are more of them.
pub async fn list<K, V>(api: &Api<K>, params: &ListParams) -> crate::error::Result<(Vec<K>, bool)>
where
    K: Resource + Clone + DeserializeOwned,
    K::DynamicType: Default,
    V: Kept,
{
    let objects = format!("{}s", K::kind(&K::DynamicType::default()));
    let page = call("list", objects, page::<K, V>(api, params)).await?;
    let more = page.metadata.continue_.as_deref();
    let has_more = more.is_some_and(|token| !token.is_empty());
    let items = page.items.into_iter();
    Ok((items.map(|item| item.object).collect(), has_more))
}

/// One page of a list.
pub(super) async fn page<K, V>(
    api: &Api<K>,
    params: &ListParams,
) -> kube::Result<ObjectList<Spare<K, V>>>
where
    K: Resource + Clone + DeserializeOwned,
    V: Kept,
{
    let request = Request::new(api.resource_url()).list(params);
    let request = request.map_err(kube::Error::BuildRequest)?;
    api.clone().into_client().request(request).await
}

/// Whether a field of a struct is read.
fn is_read(fields: Fields, of: &str, field: &str) -> bool {
    if of == "ObjectMeta" {
        return field != "managedFields";
    }
    let listed = fields.iter().find(|(name, _)| *name == of);
    listed.is_none_or(|(_, read)| read.contains(&field))
}

/// A deserializer, a visitor or a seed that spares fields of all structs inside of it.
struct Sparing<T> {
    inner: T,
    fields: Fields,
}

/// Structs are looked into, also where they are optional; everything else is read as it stands.
macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {
        $(fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$method($($argument,)* visitor)
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Sparing<D> {
    type Error = D::Error;

    forward! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_map();
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_identifier();
        deserialize_ignored_any();
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let fields = self.fields;
        self.inner.deserialize_option(Sparing {
            inner: visitor,
            fields,
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = StructVisitor {
            visitor,
            name,
            fields: self.fields,
        };
        self.inner.deserialize_struct(name, known, visitor)
    }
}

/// The visitor of something optional.
impl<'de, V: Visitor<'de>> Visitor<'de> for Sparing<V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(formatter)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Sparing {
            inner: deserializer,
            fields: self.fields,
        })
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Sparing<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Sparing {
            inner: deserializer,
            fields: self.fields,
        })
    }
}

struct StructVisitor<V> {
    visitor: V,
    name: &'static str,
    fields: Fields,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for StructVisitor<V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(formatter)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(StructFields {
            map,
            name: self.name,
            fields: self.fields,
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_seq(seq)
    }
}

/// The fields of a struct, less those that are not read.
struct StructFields<A> {
    map: A,
    name: &'static str,
    fields: Fields,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for StructFields<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        mut seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        loop {
            let name = FieldName {
                seed,
                of: self.name,
                fields: self.fields,
            };
            match self.map.next_key_seed(name)? {
                None => return Ok(None),
                Some(Field::Read(key)) => return Ok(Some(key)),
                Some(Field::Spared(back)) => {
                    self.map.next_value::<IgnoredAny>()?;
                    seed = back;
                }
            }
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.map.next_value_seed(Sparing {
            inner: seed,
            fields: self.fields,
        })
    }
}

/// A field's name: what its struct makes of it, or the seed, which is needed for the next one.
enum Field<S, T> {
    Read(T),
    Spared(S),
}

struct FieldName<S> {
    seed: S,
    of: &'static str,
    fields: Fields,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for FieldName<S> {
    type Value = Field<S, S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for FieldName<S> {
    type Value = Field<S, S::Value>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        if is_read(self.fields, self.of, name) {
            let name: StrDeserializer<'_, E> = StrDeserializer::new(name);
            self.seed.deserialize(name).map(Field::Read)
        } else {
            Ok(Field::Spared(self.seed))
        }
    }
}

#[cfg(test)]
mod tests;
