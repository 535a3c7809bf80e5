//! What a refused object gets back: one error per field, worded as the Kubernetes API server words it.
//!
//! Owns the kinds of field errors and how they become the text and the causes of a Status. Must not
//! decide what is wrong. Called by the checks beside it and by whoever answers 422.

use serde_json::{Value, json};

/// The machine-readable reason of one field error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldErrorKind {
    /// A value that breaks a rule.
    Invalid,
    /// A value of the wrong type.
    TypeInvalid,
    /// A value that must be there and is not.
    Required,
    /// A value outside its enumeration.
    NotSupported,
    /// A value that occurs twice where each must be unique.
    Duplicate,
    /// A string that is too long.
    TooLong,
    /// A list or map with too many members.
    TooMany,
    /// A value that may not be set here.
    Forbidden,
    /// The server could not check the value.
    Internal,
}

impl FieldErrorKind {
    /// The name used in `details.causes[].reason`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Required => "FieldValueRequired",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Forbidden => "FieldValueForbidden",
            Self::Internal => "InternalError",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::Required => "Required value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Forbidden => "Forbidden",
            Self::Internal => "Internal error",
        }
    }
}

/// One thing wrong with one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Where, such as `spec.replicas`; `<nil>` for the object as a whole.
    pub field: String,
    /// What kind of fault.
    pub kind: FieldErrorKind,
    /// What is wrong, without the name of the field.
    pub message: String,
}

impl FieldError {
    /// An error that shows the offending value.
    pub fn of_value(kind: FieldErrorKind, field: &str, value: &Value, detail: &str) -> Self {
        // As JSON: texts come out quoted.
        Self::with_text(kind, field, Some(&value.to_string()), detail)
    }

    /// An error that leaves the value out.
    pub fn bare(kind: FieldErrorKind, field: &str, detail: &str) -> Self {
        Self::with_text(kind, field, None, detail)
    }

    /// A broken rule.
    pub fn invalid(field: &str, value: &Value, detail: &str) -> Self {
        Self::of_value(FieldErrorKind::Invalid, field, value, detail)
    }

    /// A missing value.
    pub fn required(field: &str, detail: &str) -> Self {
        Self::bare(FieldErrorKind::Required, field, detail)
    }

    /// A value outside the list of allowed ones.
    pub fn not_supported(field: &str, value: &Value, allowed: &[Value]) -> Self {
        let names: Vec<String> = allowed
            .iter()
            .map(|value| {
                value
                    .as_str()
                    .map_or_else(|| quote(&value.to_string()), quote)
            })
            .collect();
        let detail = format!("supported values: {}", names.join(", "));
        Self::of_value(FieldErrorKind::NotSupported, field, value, &detail)
    }

    /// An error with the value as it shall be shown, if at all.
    pub(crate) fn with_text(
        kind: FieldErrorKind,
        field: &str,
        value: Option<&str>,
        detail: &str,
    ) -> Self {
        let mut message = kind.title().to_owned();
        for part in value
            .into_iter()
            .chain(Some(detail).filter(|d| !d.is_empty()))
        {
            message.push_str(": ");
            message.push_str(part);
        }
        let field = if field.is_empty() { "<nil>" } else { field };
        Self {
            field: field.to_owned(),
            kind,
            message,
        }
    }

    /// This error as an entry of `details.causes`.
    pub fn cause(&self) -> Value {
        json!({"reason": self.kind.reason(), "message": self.message, "field": self.field})
    }

    /// Whether rules that look at the whole object cannot be trusted after this error.
    pub(crate) fn blocks_rules(&self) -> bool {
        matches!(
            self.kind,
            FieldErrorKind::NotSupported
                | FieldErrorKind::Required
                | FieldErrorKind::TooLong
                | FieldErrorKind::TooMany
                | FieldErrorKind::TypeInvalid
        )
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// All errors as one text: alone when there is one, in brackets when there are more.
pub fn summarize(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [only] => only.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// A text in double quotes with Go's escapes, which JSON shares for all that occurs in practice.
pub(crate) fn quote(text: &str) -> String {
    Value::from(text).to_string()
}
