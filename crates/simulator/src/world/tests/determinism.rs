//! One seed, one story: the same trace twice.

use super::*;

/// A small story with evictions, a dead machine and a new one.
async fn story(seed: u64, start_second: i64) -> (String, Vec<String>) {
    let mut spec = WorldSpec::small(seed, 3).with([
        deployment("web", 3, 100),
        budget("web", 2),
        daemon_set("agent", 10),
    ]);
    spec.start = Timestamp::from_second(start_second).unwrap();
    let began = spec.start;
    let world = start(spec).await;
    seconds(20).await;
    let victim = pods_of(&world, "web").await[0].clone();
    cordon(&world, &node_of(&victim)).await;
    evict(&world, &victim.name_any()).await.unwrap_or_default();
    world.cloud().kill_machine(&"workers-003".into());
    seconds(200).await;
    let lines = trace::lines(world.api(), world.cloud(), world.etcd(), began);
    (world.trace_hash(), lines)
}

/// Runs a future on a runtime of its own, with paused time.
fn alone<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(future)
}

#[test]
fn fifty_seeds_run_twice_give_the_same_trace_on_whatever_date() {
    let mut hashes = BTreeSet::new();
    for seed in 0..50 {
        let (twin, (first, first_lines)) = std::thread::scope(|scope| {
            let twin = scope.spawn(|| alone(story(seed, 1_767_225_600)));
            let own = alone(story(seed, 1_790_000_003));
            (twin.join().unwrap(), own)
        });
        let (second, second_lines) = twin;
        for (left, right) in first_lines.iter().zip(&second_lines) {
            assert_eq!(left, right, "seed {seed}");
        }
        assert_eq!(first, second, "seed {seed}");
        hashes.insert(first);
    }
    assert!(hashes.len() > 40, "different seeds give different stories");
}
