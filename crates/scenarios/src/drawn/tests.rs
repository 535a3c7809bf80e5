//! What is drawn can be read, differs, and comes again.

use super::*;

#[test]
fn two_thousand_seeds_draw_stories_that_can_be_read() {
    for seed in 0..2_000 {
        draw(seed).unwrap();
    }
}

#[test]
fn one_seed_tells_one_story() {
    let hash = || {
        let drawn = draw(7).unwrap();
        play(&drawn, 7).unwrap().trace_hash
    };
    assert_eq!(hash(), hash());
}
