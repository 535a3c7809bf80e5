//! The stories of the embedded cluster, on a real control plane. The witnesses are the audit log and
//! the cloud's call log.

use shipshape_scenarios::repertoire;
use shipshape_testbed::stories;

#[test]
fn every_story_goes_on_a_real_control_plane_as_it_should() {
    let scenarios = repertoire::load(&stories::folder()).unwrap();
    let playbill = stories::real(&scenarios, 1);
    println!("{playbill}");
    assert!(playbill.is_as_expected(), "{playbill}");
}
