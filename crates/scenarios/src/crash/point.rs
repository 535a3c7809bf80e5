//! A point of a crash plan: which effect, and when around it.
//!
//! Owns the words, and how a point is written: `patch nodes#3:before`.

use std::fmt;
use std::str::FromStr;

/// When around an effect something goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// The process dies before the request is sent.
    Before,
    /// The process dies once the request has taken effect, before it hears of that.
    After,
    /// The request takes effect, and the process lives on with an error in place of the answer.
    Lost,
    /// The request has no effect, and the process lives on with an error.
    Refused,
}

impl Moment {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Before, Self::After, Self::Lost, Self::Refused];

    fn word(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
            Self::Lost => "lost",
            Self::Refused => "refused",
        }
    }
}

/// One fault at one moment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// The effect, for example `patch nodes`.
    pub effect: String,
    /// Which of these, counted from one.
    pub number: u32,
    /// When.
    pub moment: Moment,
}

impl fmt::Display for Point {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            effect,
            number,
            moment,
        } = self;
        write!(formatter, "{effect}#{number}:{}", moment.word())
    }
}

impl FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            let moments = Moment::ALL.map(Moment::word).join(", ");
            format!(
                "{text:?} is not of the form EFFECT#NUMBER:MOMENT; a moment is one of {moments}"
            )
        };
        let (effect, rest) = text.rsplit_once('#').ok_or_else(wrong)?;
        let (number, word) = rest.split_once(':').ok_or_else(wrong)?;
        let moment = Moment::ALL
            .into_iter()
            .find(|moment| moment.word() == word)
            .ok_or_else(wrong)?;
        let number = number.parse().map_err(|_| wrong())?;
        if number == 0 {
            return Err(format!(
                "{text:?} names effect 0; effects are counted from 1"
            ));
        }
        Ok(Self {
            effect: effect.to_owned(),
            number,
            moment,
        })
    }
}

/// Which points of a scenario are played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// One of every so many, beginning with the first.
    Every(usize),
    /// One of them.
    One(Point),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A point has its number behind this sign, and no part has.
        let part = text.split_once('/').filter(|_| !text.contains('#'));
        let every = part.map(|(one, every)| (one, every.parse().unwrap_or(0)));
        match (text, every) {
            ("all", _) => Ok(Self::Every(1)),
            (_, Some(("1", every))) if every > 0 => Ok(Self::Every(every)),
            (_, Some(_)) => Err(format!("{text:?} is not a part such as 1/3")),
            (one, None) => one.parse().map(Self::One),
        }
    }
}
