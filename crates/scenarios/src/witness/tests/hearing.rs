//! Nothing is made or removed upon silence.

use super::*;

fn asked(question: &str, heard: bool) -> Fact {
    let question = question.to_owned();
    Fact::Hearing(
        0,
        Hearing::Asked {
            work: None,
            question,
            heard,
        },
    )
}

fn acted(upon: &[&str]) -> Fact {
    let upon = upon.iter().map(|one| (*one).to_owned()).collect();
    let effect = "cloud deleteMachine m".to_owned();
    Fact::Hearing(
        0,
        Hearing::Acted {
            work: None,
            effect,
            upon,
        },
    )
}

const PODS: &str = "list pods spec.nodeName=a";
const NODE: &str = "get nodes/a";

#[test]
fn an_effect_upon_an_unheard_answer_breaks_i23() {
    let silent = vec![asked(NODE, true), asked(PODS, false), acted(&[NODE, PODS])];
    assert_eq!(broken(silent), ["I23"]);
    let heard = vec![
        asked(PODS, false),
        asked(PODS, true),
        asked(NODE, true),
        acted(&[NODE, PODS]),
    ];
    assert_eq!(broken(heard), Vec::<&str>::new());
}

#[test]
fn an_effect_that_does_not_rest_upon_the_silence_breaks_nothing() {
    assert_eq!(
        broken(vec![asked(PODS, false), acted(&[NODE])]),
        Vec::<&str>::new()
    );
}

#[test]
fn what_another_process_did_not_hear_breaks_nothing() {
    let other = |hearing| Fact::Hearing(1, hearing);
    let silence = Hearing::Asked {
        work: None,
        question: PODS.to_owned(),
        heard: false,
    };
    assert_eq!(
        broken(vec![other(silence), acted(&[PODS])]),
        Vec::<&str>::new()
    );
    let restarted = Fact::Hearing(0, Hearing::Restarted);
    assert_eq!(
        broken(vec![asked(PODS, false), restarted, acted(&[PODS])]),
        Vec::<&str>::new()
    );
}

#[test]
fn the_silence_that_another_pass_met_meanwhile_does_not_count() {
    let asked = |work, heard| {
        let asked = Hearing::Asked {
            work: Some(work),
            question: PODS.to_owned(),
            heard,
        };
        Fact::Hearing(0, asked)
    };
    let acts = |work| {
        let acts = Hearing::Acted {
            work: Some(work),
            effect: "cloud deleteMachine a".to_owned(),
            upon: vec![PODS.to_owned()],
        };
        Fact::Hearing(0, acts)
    };
    let heard = vec![asked(1, true), asked(2, false), acts(1)];
    assert_eq!(broken(heard), Vec::<&str>::new());
    let not_heard = vec![asked(1, true), asked(2, false), acts(2)];
    assert_eq!(broken(not_heard), ["I23"]);
    let not_asked = vec![asked(2, false), acts(1)];
    assert_eq!(broken(not_asked), ["I23"]);
}
