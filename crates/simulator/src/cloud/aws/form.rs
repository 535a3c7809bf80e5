//! The form of a query request: flat names that spell out lists.
//!
//! Owns the reading of names. Must not know any action.

use std::collections::BTreeMap;

/// Names and values.
#[derive(Clone, Debug, Default)]
pub(super) struct Form(BTreeMap<String, String>);

impl Form {
    pub(super) fn parse(body: &[u8]) -> Self {
        Self(form_urlencoded::parse(body).into_owned().collect())
    }

    /// One value, unless it is empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|text| !text.is_empty())
    }

    /// The values `NAME.1`, `NAME.2`, … without a gap.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let values = (1..).map_while(|index| self.get(&format!("{name}.{index}")));
        values.map(str::to_owned).collect()
    }

    /// The prefixes `NAME.1.`, `NAME.2.`, … for which `field` is there.
    pub(super) fn entries(&self, name: &str, field: &str) -> Vec<String> {
        let prefixes = (1..).map(|index| format!("{name}.{index}."));
        prefixes
            .take_while(|prefix| self.get(&format!("{prefix}{field}")).is_some())
            .collect()
    }

    /// Keys and values of a list of tags.
    pub(super) fn tags(&self, name: &str) -> BTreeMap<String, String> {
        let entries = self.entries(name, "Key").into_iter();
        let pairs = entries.filter_map(|prefix| {
            let key = self.get(&format!("{prefix}Key"))?;
            let value = self.get(&format!("{prefix}Value")).unwrap_or_default();
            Some((key.to_owned(), value.to_owned()))
        });
        pairs.collect()
    }

    /// Everything that was asked, as one text.
    pub(super) fn words(&self) -> String {
        let pairs = self.0.iter().map(|(name, value)| format!("{name}={value}"));
        pairs.collect::<Vec<_>>().join("&")
    }
}
