//! Charts as SVG, each with its numbers as a table. Shapes have classes but no inline styles, as the content security
//! policy of the page requires.

use crate::quantity::{bytes, duration, number};
use crate::table::{self, Column};
use maud::{Markup, html};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 240.0;

/// The space for the labels of the axes.
const LEFT: f64 = 56.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 34.0;

/// About this many labels fit below the horizontal axis.
const MAX_LABELS: usize = 12;

/// The widest bar, in charts with few bars.
const MAX_BAR: f64 = 64.0;

/// Values for the labels of the chart.
pub struct Series {
    pub name: String,
    pub values: Vec<f64>,
}

/// The form of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Bars, stacked if there are several series.
    Bars,
    Lines,
}

/// A chart: its title, the meaning of its labels, and the unit of its values.
pub struct Chart<'a> {
    pub title: &'a str,
    pub label: &'a str,
    pub unit: &'a str,
    pub labels: &'a [String],
    pub series: &'a [Series],
    pub form: Form,
    pub quantity: Quantity,
}

/// The kind of the values. It determines their text and the round ends of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    Count,
    Decimal,
    Bytes,
    /// In seconds.
    Duration,
}

impl Quantity {
    fn format_value(self, value: f64) -> String {
        match self {
            Quantity::Bytes => bytes(value.max(0.0) as u64),
            Quantity::Duration => duration(value.max(0.0)),
            Quantity::Decimal if value.fract() != 0.0 || value < 0.0 => format!("{value:.2}"),
            Quantity::Count | Quantity::Decimal => number(value.round().max(0.0) as u64),
        }
    }

    /// The value at the upper end of an axis: a round value that is not below `largest`.
    fn round_up(self, largest: f64) -> f64 {
        let units: &[f64] = match self {
            Quantity::Bytes => &[1_073_741_824.0, 1_048_576.0, 1024.0],
            Quantity::Duration => &[1.0, 1e-3, 1e-6],
            Quantity::Count | Quantity::Decimal => &[],
        };
        let smallest = units.last().filter(|unit| **unit < 1.0).copied().unwrap_or(1.0);
        let unit = units.iter().copied().find(|unit| largest >= *unit).unwrap_or(smallest);
        round_up(largest / unit) * unit
    }
}

impl Chart<'_> {
    /// Renders the chart, and its numbers as a table.
    pub fn render(&self) -> Markup {
        let axis_max = self.axis_max();
        let y = |value: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - (value / axis_max).clamp(0.0, 1.0));
        let step = (WIDTH - LEFT - RIGHT) / self.labels.len().max(1) as f64;
        let x = |index: usize| LEFT + step * index as f64;
        let bar = (step * 0.7).min(MAX_BAR);
        let every = self.labels.len().div_ceil(MAX_LABELS).max(1);
        html! {
            figure.chart {
                figcaption { (self.title) span.unit { " (" (self.unit) ")" } }
                @if self.series.len() > 1 {
                    ul.legend {
                        @for (index, series) in self.series.iter().enumerate() {
                            li { span class={ "key s" (index % 6) } {} (series.name) }
                        }
                    }
                }
                div.scroll tabindex="0" role="region" aria-label=(self.title) {
                    svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) }
                    role="img" aria-label={ (self.title) ": the numbers are in the table below" }
                    {
                        @for tick in 0..=4 {
                            @let value = axis_max * f64::from(tick) / 4.0;
                            line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(y(value)) y2=(y(value)) {}
                            text.tick x=(LEFT - 8.0) y=(y(value) + 4.0) text-anchor="end" { (self.quantity.format_value(value)) }
                        }
                        @for (index, label) in self.labels.iter().enumerate().step_by(every) {
                            text.tick x=(x(index) + step / 2.0) y=(HEIGHT - 14.0) text-anchor="middle" {
                                (shortened(label))
                            }
                        }
                        @match self.form {
                            Form::Bars => {
                                @for (index, label) in self.labels.iter().enumerate() {
                                    @for (layer, below, value) in self.stack(index) {
                                        @let series = self.series.get(layer).map_or("", |series| &*series.name);
                                        rect class={ "s" (layer % 6) } x=(x(index) + (step - bar) / 2.0) width=(bar)
                                            y=(y(below + value)) height=((y(below) - y(below + value)).max(0.0)) rx="2" {
                                            title { (label) " · " (series) ": " (self.quantity.format_value(value)) }
                                        }
                                    }
                                }
                            }
                            Form::Lines => {
                                @for (layer, series) in self.series.iter().enumerate() {
                                    polyline class={ "s" (layer % 6) }
                                    points=(points(&series.values, |index, value| (x(index) + step / 2.0, y(value)))) {}
                                    @for (index, value) in series.values.iter().enumerate() {
                                        circle class={ "s" (layer % 6) } cx=(x(index) + step / 2.0) cy=(y(*value)) r="3" {
                                            title {
                                                (self.labels.get(index).map_or("", String::as_str)) " · " (series.name) ": " (self.quantity.format_value(*value))
                                            }
                                        }
                                    }
                                }
                            }
                        }
                        line.axis x1=(LEFT) x2=(WIDTH - RIGHT) y1=(y(0.0)) y2=(y(0.0)) {}
                        text.axis-name x=(WIDTH - RIGHT) y=(HEIGHT - 1.0) text-anchor="end" { (self.label) }
                    }
                }
                details {
                    summary { "Numbers as a table" }
                    (self.as_table())
                }
            }
        }
    }

    fn as_table(&self) -> Markup {
        let columns = self.series.iter().map(|series| Column::numbers(&series.name));
        let columns: Vec<_> = std::iter::once(Column::text(self.label)).chain(columns).collect();
        table::table(
            &format!("{}, as a table", self.title),
            &columns,
            html! {
                @for (index, label) in self.labels.iter().enumerate() {
                    tr {
                        th scope="row" { (label) }
                        @for series in self.series {
                            td.number {
                                (self.quantity.format_value(series.values.get(index).copied().unwrap_or_default()))
                            }
                        }
                    }
                }
            },
        )
    }

    fn axis_max(&self) -> f64 {
        let height = |index: usize| match self.form {
            Form::Bars => self.series.iter().filter_map(|series| series.values.get(index)).sum::<f64>(),
            Form::Lines => {
                self.series.iter().filter_map(|series| series.values.get(index)).fold(0.0, |a: f64, b| a.max(*b))
            }
        };
        let largest = (0..self.labels.len()).map(height).filter(|height| height.is_finite()).fold(0.0, f64::max);
        self.quantity.round_up(largest)
    }

    /// The layers of a bar: the index of the series, the sum of lower layers, and the value.
    fn stack(&self, index: usize) -> Vec<(usize, f64, f64)> {
        let mut below = 0.0;
        let values = self.series.iter().map(|series| series.values.get(index).copied().unwrap_or_default().max(0.0));
        values
            .enumerate()
            .map(|(layer, value)| {
                let start = below;
                below += value;
                (layer, start, value)
            })
            .collect()
    }
}

/// The next value of 4, 8, 20, 40, 80, 200 and so on, which divide into four even parts.
fn round_up(value: f64) -> f64 {
    let mut scale = 1.0;
    while scale < 1e15 {
        if let Some(step) = [4.0, 8.0, 20.0].into_iter().map(|step| step * scale).find(|step| value <= *step) {
            return step;
        }
        scale *= 10.0;
    }
    value
}

fn points(values: &[f64], at: impl Fn(usize, f64) -> (f64, f64)) -> String {
    let point = |(index, value): (usize, &f64)| {
        let (x, y) = at(index, *value);
        format!("{x:.1},{y:.1}")
    };
    values.iter().enumerate().map(point).collect::<Vec<_>>().join(" ")
}

fn shortened(label: &str) -> String {
    match label.char_indices().nth(10) {
        Some((end, _)) => format!("{}…", label.get(..end).unwrap_or_default()),
        None => label.to_owned(),
    }
}

/// A bar beside its number, for `value` as a part of `largest`.
pub fn bar(value: f64, largest: f64) -> Markup {
    let width = if largest > 0.0 { (value / largest * 100.0).clamp(0.0, 100.0) } else { 0.0 };
    html! {
        svg.bar viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" {
            rect.track width="100" height="8" rx="2" {}
            rect.s0 width=(format!("{width:.1}")) height="8" rx="2" {}
        }
    }
}

/// A small line chart beside its last number, from 0 to the largest value.
pub fn sparkline(values: &[f64]) -> Markup {
    let largest = values.iter().copied().fold(0.0, f64::max);
    let step = 100.0 / values.len().saturating_sub(1).max(1) as f64;
    let at = |index: usize, value: f64| {
        let share = if largest > 0.0 { (value / largest).clamp(0.0, 1.0) } else { 0.0 };
        (step * index as f64, 22.0 - 20.0 * share)
    };
    html! {
        svg.spark viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true" {
            polyline.s0 points=(points(values, at)) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_values() {
        for (value, expected) in [(0.0, 4.0), (4.0, 4.0), (5.0, 8.0), (9.0, 20.0), (21.0, 40.0), (1234.0, 2000.0)] {
            assert_eq!(Quantity::Count.round_up(value), expected, "{value}");
        }
        assert_eq!(Quantity::Bytes.round_up(9700.0), 20.0 * 1024.0);
        assert_eq!(Quantity::Bytes.format_value(20.0 * 1024.0), "20.0 KiB");
        assert_eq!(Quantity::Decimal.format_value(0.5), "0.50");
        assert_eq!(Quantity::Duration.format_value(Quantity::Duration.round_up(0.0031)), "4 ms");
        assert_eq!(Quantity::Duration.format_value(Quantity::Duration.round_up(0.0)), "4 µs");
    }

    #[test]
    fn a_chart_has_its_numbers_as_a_table_and_no_markup_of_its_data() {
        let labels = ["2026-01".to_owned(), "<b>".to_owned()];
        let series = [
            Series { name: "opened".into(), values: vec![3.0, 1.0] },
            Series { name: "</svg>".into(), values: vec![1.0, f64::NAN] },
        ];
        for form in [Form::Bars, Form::Lines] {
            let chart = Chart {
                title: "t",
                label: "month",
                unit: "issues",
                labels: &labels,
                series: &series,
                form,
                quantity: Quantity::Count,
            };
            let text = chart.render().into_string();
            assert!(text.contains("<th scope=\"row\">2026-01</th><td class=\"number\">3</td>"), "{text}");
            assert!(!text.contains("<b>") && text.matches("</svg>").count() == 1, "{text}");
            assert!(!text.contains("style="));
        }
    }

    #[test]
    fn a_sparkline_ends_at_its_largest_value() {
        let text = sparkline(&[0.0, 1.0, 4.0]).into_string();
        assert!(text.contains("points=\"0.0,22.0 50.0,17.0 100.0,2.0\""), "{text}");
        assert!(sparkline(&[]).into_string().contains("points=\"\""));
    }
}
