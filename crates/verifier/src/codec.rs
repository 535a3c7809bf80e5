//! Questions to name servers and their answers, byte by byte.
//!
//! Owns the two message forms that the checks need (RFC 1035): one question, and the addresses in an answer. A resolver
//! library would hide what is checked here: which server, which transport, which of five tries.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of a message before its first question.
const HEADER: usize = 12;
const IS_RESPONSE: u16 = 0x8000;
const IS_TRUNCATED: u16 = 0x0200;
const WANTS_RECURSION: u16 = 0x0100;
const CODE: u16 = 0x000f;
const INTERNET: u16 = 1;
/// A name goes on elsewhere in the message when its length byte has both bits.
const POINTER: u8 = 0xc0;

/// Which addresses are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    fn record_type(self) -> u16 {
        match self {
            Self::V4 => 1,
            Self::V6 => 28,
        }
    }

    /// What people call the record.
    pub(crate) fn record(self) -> &'static str {
        match self {
            Self::V4 => "A",
            Self::V6 => "AAAA",
        }
    }
}

/// What a server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) is_truncated: bool,
    pub(crate) addresses: Vec<IpAddr>,
}

impl Answer {
    /// The code in words.
    pub(crate) fn code_name(&self) -> String {
        match self.code {
            0 => "NOERROR".to_owned(),
            1 => "FORMERR".to_owned(),
            2 => "SERVFAIL".to_owned(),
            3 => "NXDOMAIN".to_owned(),
            4 => "NOTIMP".to_owned(),
            5 => "REFUSED".to_owned(),
            code => format!("code {code}"),
        }
    }

    pub(crate) fn is_no_error(&self) -> bool {
        self.code == 0
    }

    pub(crate) fn is_no_such_name(&self) -> bool {
        self.code == 3
    }
}

/// The question for a name that `target::name` has let pass.
pub(crate) fn question(id: u16, name: &str, family: Family) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER + name.len() + 6);
    for word in [id, WANTS_RECURSION, 1, 0, 0, 0] {
        message.extend(word.to_be_bytes());
    }
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).unwrap_or(u8::MAX));
        message.extend(label.bytes());
    }
    message.push(0);
    for word in [family.record_type(), INTERNET] {
        message.extend(word.to_be_bytes());
    }
    message
}

/// The answer in a message, or nothing when it is not an answer to this question.
pub(crate) fn answer(message: &[u8], question: &[u8], family: Family) -> Option<Answer> {
    let mut rest = Reader(message);
    let id = rest.bytes(2)?;
    let flags = rest.word()?;
    let [questions, answers] = [rest.word()?, rest.word()?];
    rest.bytes(4)?;
    if Some(id) != question.get(..2) || flags & IS_RESPONSE == 0 {
        return None;
    }
    for _ in 0..questions {
        rest.name()?;
        rest.bytes(4)?;
    }
    // Some servers leave the question out of an error.
    let asked = message.get(HEADER..message.len() - rest.0.len())?;
    let expected = question.get(HEADER..)?;
    if questions > 0 && !asked.eq_ignore_ascii_case(expected) {
        return None;
    }
    let is_truncated = flags & IS_TRUNCATED != 0;
    let mut addresses = Vec::new();
    for _ in 0..answers {
        match rest.record() {
            Some(record) if record.is_of(family) => addresses.push(record.address(family)?),
            Some(_) => {}
            // What was cut off may end in the middle of a record.
            None if is_truncated => break,
            None => return None,
        }
    }
    Some(Answer {
        code: flags & CODE,
        is_truncated,
        addresses,
    })
}

/// What is left of a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    fn word(&mut self) -> Option<u16> {
        self.bytes(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    /// Steps over a name; where a pointer leads is of no interest.
    fn name(&mut self) -> Option<()> {
        loop {
            match *self.bytes(1)? {
                [0] => return Some(()),
                [length] if length & POINTER == POINTER => return self.bytes(1).map(|_| ()),
                [length] if length & POINTER == 0 => self.bytes(length.into()).map(|_| ())?,
                _ => return None,
            }
        }
    }

    fn record(&mut self) -> Option<Record<'a>> {
        self.name()?;
        let [kind, class] = [self.word()?, self.word()?];
        self.bytes(4)?;
        let length = self.word()?;
        let data = self.bytes(length.into())?;
        Some(Record { kind, class, data })
    }
}

/// What a server says about a name.
struct Record<'a> {
    kind: u16,
    class: u16,
    data: &'a [u8],
}

impl Record<'_> {
    fn is_of(&self, family: Family) -> bool {
        self.kind == family.record_type() && self.class == INTERNET
    }

    fn address(&self, family: Family) -> Option<IpAddr> {
        match family {
            Family::V4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(self.data).ok()?).into()),
            Family::V6 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(self.data).ok()?).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use hickory_proto::op::{Message, ResponseCode};
    use hickory_proto::rr::rdata::{A, AAAA, CNAME};
    use hickory_proto::rr::{Name, RData, Record, RecordType};
    use proptest::prelude::*;

    use super::*;

    const NAME: &str = "kubernetes.default.svc.cluster.local";

    fn reply(question: &[u8], data: &[RData]) -> Message {
        let mut reply = Message::from_vec(question).unwrap().into_response();
        for data in data {
            let owner = Name::from_str("alias.cluster.local.").unwrap();
            reply.add_answer(Record::from_rdata(owner, 30, data.clone()));
        }
        reply
    }

    #[test]
    fn another_codec_reads_our_question() {
        for (family, kind) in [(Family::V4, RecordType::A), (Family::V6, RecordType::AAAA)] {
            let read = Message::from_vec(&question(7, NAME, family)).unwrap();
            let query = read.queries.first().unwrap();
            assert_eq!(query.name.to_string(), format!("{NAME}."));
            assert_eq!((read.metadata.id, query.query_type), (7, kind));
            assert!(read.metadata.recursion_desired);
        }
    }

    #[test]
    fn addresses_behind_an_alias_are_read_from_what_another_codec_wrote() {
        let alias = RData::CNAME(CNAME(Name::from_str(NAME).unwrap()));
        let four = RData::A(A::new(10, 96, 0, 1));
        let six = RData::AAAA(AAAA("fd00::1".parse().unwrap()));
        for (family, address) in [(Family::V4, "10.96.0.1"), (Family::V6, "fd00::1")] {
            let question = question(7, NAME, family);
            let reply = reply(&question, &[alias.clone(), four.clone(), six.clone()]);
            let read = answer(&reply.to_vec().unwrap(), &question, family).unwrap();
            assert!(read.is_no_error() && !read.is_truncated);
            assert_eq!(read.addresses, [address.parse::<IpAddr>().unwrap()]);
        }
    }

    #[test]
    fn an_error_is_named() {
        let question = question(7, NAME, Family::V4);
        let mut reply = reply(&question, &[]);
        reply.metadata.response_code = ResponseCode::NXDomain;
        let read = answer(&reply.to_vec().unwrap(), &question, Family::V4).unwrap();
        assert!(read.is_no_such_name());
        assert_eq!(read.code_name(), "NXDOMAIN");
    }

    #[test]
    fn an_answer_to_another_question_is_none() {
        let ours = question(7, NAME, Family::V4);
        for theirs in [
            question(8, NAME, Family::V4),
            question(7, "example.com", Family::V4),
            question(7, NAME, Family::V6),
        ] {
            let reply = reply(&theirs, &[]).to_vec().unwrap();
            assert_eq!(answer(&reply, &ours, Family::V4), None);
        }
        assert_eq!(
            answer(&ours, &ours, Family::V4),
            None,
            "a question is no answer"
        );
    }

    proptest! {
        #[test]
        fn bytes_of_any_kind_are_read_without_a_panic(
            cut in any::<prop::sample::Index>(), noise in proptest::collection::vec(any::<u8>(), 0..80)
        ) {
            let question = question(7, NAME, Family::V4);
            let whole = reply(&question, &[RData::A(A::new(10, 0, 0, 1))]).to_vec().unwrap();
            let mut bytes = whole.get(..cut.index(whole.len())).unwrap().to_vec();
            prop_assert_eq!(answer(&bytes, &question, Family::V4), None);
            bytes.extend(noise);
            let read = answer(&bytes, &question, Family::V4);
            prop_assert!(read.is_none_or(|read| read.addresses.len() < bytes.len()));
        }
    }
}
