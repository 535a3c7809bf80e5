//! The timeline: a picture with one row a node and one colour a step.
//!
//! Owns the record of who was in which step when, and its drawing as SVG. Must not judge.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use shipshape_api::{NodePatchTask, NodePatchTaskStatus, TaskStep};

const LEFT: f64 = 210.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 64.0;
const ROW: f64 = 22.0;
const WIDTH: f64 = 1200.0;

/// From when on a node was in a step.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mark {
    at: Timestamp,
    step: TaskStep,
}

/// Who was in which step when.
#[derive(Clone, Debug)]
pub struct Timeline {
    start: Timestamp,
    end: Timestamp,
    rows: BTreeMap<(String, String), Vec<Mark>>,
}

impl Timeline {
    /// An empty picture that begins now.
    pub fn new(start: Timestamp) -> Self {
        Self {
            start,
            end: start,
            rows: BTreeMap::new(),
        }
    }

    /// Takes in how a task stands.
    pub fn saw(&mut self, task: &NodePatchTask, now: Timestamp) {
        self.end = self.end.max(now);
        let step = task
            .status
            .as_ref()
            .map(NodePatchTaskStatus::step_name)
            .unwrap_or_default();
        let zone = task.spec.zone.clone().unwrap_or_default();
        let marks = self
            .rows
            .entry((zone, task.spec.node_name.clone()))
            .or_default();
        if marks.last().is_none_or(|last| last.step != step) {
            marks.push(Mark { at: now, step });
        }
    }

    /// The picture.
    pub fn svg(&self, title: &str) -> String {
        let height = TOP + ROW * float(self.rows.len()) + 34.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"12\" y=\"24\" font-size=\"16\" fill=\"#111827\">{}</text>\n",
            escaped(title)
        );
        self.draw_legend(&mut svg);
        self.draw_axis(&mut svg, height);
        for (index, ((zone, node), marks)) in self.rows.iter().enumerate() {
            self.draw_row(&mut svg, index, &format!("zone {zone}: {node}"), marks);
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Names the colours that the picture uses.
    fn draw_legend(&self, svg: &mut String) {
        let mut x = LEFT;
        let is_used = |step: &TaskStep| {
            let mut marks = self.rows.values().flatten();
            marks.any(|mark| mark.step == *step)
        };
        for step in TaskStep::ALL.into_iter().filter(is_used) {
            put(
                svg,
                format_args!(
                    "<rect x=\"{x}\" y=\"36\" width=\"12\" height=\"12\" fill=\"{}\"/>",
                    colour(step)
                ),
            );
            put(
                svg,
                format_args!(
                    "<text x=\"{}\" y=\"46\" fill=\"#374151\">{step:?}</text>",
                    x + 17.0
                ),
            );
            x += 92.0;
        }
    }

    fn draw_axis(&self, svg: &mut String, height: f64) {
        let total = self.seconds(self.end).max(1.0);
        let minutes = nice_step(total / 60.0 / 10.0);
        let mut at = 0.0;
        while at * 60.0 <= total {
            let x = self.x(at * 60.0);
            put(
                svg,
                format_args!(
                    "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#e5e7eb\"/>",
                    height - 28.0
                ),
            );
            put(
                svg,
                format_args!(
                    "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#6b7280\">{at} min</text>",
                    height - 10.0
                ),
            );
            at += minutes;
        }
    }

    fn draw_row(&self, svg: &mut String, index: usize, label: &str, marks: &[Mark]) {
        let y = TOP + ROW * float(index);
        put(
            svg,
            format_args!(
                "<text x=\"12\" y=\"{:.1}\" fill=\"#111827\">{}</text>",
                y + 14.0,
                escaped(label)
            ),
        );
        for (position, mark) in marks.iter().enumerate() {
            if mark.step.is_final() {
                self.draw_end(svg, y, label, *mark);
                continue;
            }
            let until = marks.get(position + 1).map_or(self.end, |next| next.at);
            let (from, to) = (self.x(self.seconds(mark.at)), self.x(self.seconds(until)));
            put(
                svg,
                format_args!(
                    "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\" fill=\"{}\">\
                 <title>{}: {:?} for {:.0} s</title></rect>",
                    y + 3.0,
                    (to - from).max(1.0),
                    colour(mark.step),
                    escaped(label),
                    mark.step,
                    self.seconds(until) - self.seconds(mark.at)
                ),
            );
        }
    }

    /// A dot where a task ended, well or not.
    fn draw_end(&self, svg: &mut String, y: f64, label: &str, mark: Mark) {
        put(
            svg,
            format_args!(
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"6\" fill=\"{}\">\
                 <title>{}: {:?}</title></circle>",
                self.x(self.seconds(mark.at)),
                y + 10.0,
                colour(mark.step),
                escaped(label),
                mark.step
            ),
        );
    }

    fn seconds(&self, at: Timestamp) -> f64 {
        at.duration_since(self.start).as_secs_f64()
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * seconds / self.seconds(self.end).max(1.0)
    }
}

fn colour(step: TaskStep) -> &'static str {
    match step {
        TaskStep::Lock => "#9ca3af",
        TaskStep::Provision => "#60a5fa",
        TaskStep::Join => "#2563eb",
        TaskStep::Transfer => "#1e40af",
        TaskStep::Settle => "#a5b4fc",
        TaskStep::Cordon => "#fde047",
        TaskStep::Drain => "#f59e0b",
        TaskStep::Recover => "#fed7aa",
        TaskStep::RemoveMember => "#fb7185",
        TaskStep::Remove => "#ef4444",
        TaskStep::Forget => "#a855f7",
        TaskStep::Undo => "#be185d",
        TaskStep::Backoff => "#f9a8d4",
        TaskStep::Parked => "#d1d5db",
        TaskStep::Release => "#14b8a6",
        TaskStep::Done => "#22c55e",
        TaskStep::Failed => "#111827",
    }
}

/// The next larger of 1, 2, 5, 10, 20, 50 … so that an axis has about ten marks.
fn nice_step(wanted: f64) -> f64 {
    let mut scale = 1.0;
    loop {
        for factor in [1.0, 2.0, 5.0] {
            if factor * scale >= wanted {
                return factor * scale;
            }
        }
        scale *= 10.0;
    }
}

fn put(svg: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _infallible = writeln!(svg, "{line}");
}

/// Text for an SVG file, which may hold neither markup nor control characters.
fn escaped(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn float(count: usize) -> f64 {
    crate::witness::as_float(count)
}

#[cfg(test)]
mod tests {
    use shipshape_api::NodePatchTaskSpec;
    use shipshape_api::node_patch_task::StepRecord;

    use super::*;

    fn task(node: &str, step: TaskStep) -> NodePatchTask {
        let spec = NodePatchTaskSpec {
            node_name: node.to_owned(),
            ..NodePatchTaskSpec::default()
        };
        let mut task = NodePatchTask::new("t", spec);
        let since = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH);
        task.status = Some(NodePatchTaskStatus {
            step: Some(StepRecord {
                name: step,
                since,
                deadline: None,
            }),
            ..NodePatchTaskStatus::default()
        });
        task
    }

    #[test]
    fn a_node_has_one_row_and_a_bar_for_each_step() {
        let second = |second| Timestamp::from_second(second).unwrap();
        let mut timeline = Timeline::new(second(0));
        timeline.saw(&task("a<b", TaskStep::Join), second(10));
        timeline.saw(&task("a<b", TaskStep::Join), second(20));
        timeline.saw(&task("a<b", TaskStep::Drain), second(60));
        timeline.saw(&task("a<b", TaskStep::Done), second(90));
        let svg = timeline.svg("roll");
        assert_eq!(svg.matches("</rect>").count(), 2);
        assert!(svg.contains("a&lt;b: Done"), "how it ended: {svg}");
        assert!(svg.contains("a&lt;b: Join for 50 s"), "{svg}");
        assert!(svg.contains("a&lt;b: Drain for 30 s"), "{svg}");
    }

    #[test]
    fn a_strange_title_leaves_the_picture_a_picture() {
        let svg = Timeline::new(Timestamp::UNIX_EPOCH).svg("a<b>&\u{1}\n\"é漢");
        assert!(
            svg.contains(">a&lt;b&gt;&amp;\u{fffd}\u{fffd}\"é漢</text>"),
            "{svg}"
        );
    }

    #[test]
    fn an_axis_has_about_ten_marks() {
        for (wanted, step) in [
            (0.3, 1.0),
            (1.5, 2.0),
            (3.0, 5.0),
            (7.0, 10.0),
            (30.0, 50.0),
        ] {
            assert!((nice_step(wanted) - step).abs() < f64::EPSILON, "{wanted}");
        }
    }
}
