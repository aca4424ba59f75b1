//! Former flags. For one release the commands take them, with a warning.

use std::io::Write;

/// Each former flag, and what to do.
const FORMER: [(&str, &str); 5] = [
    ("--freshness", "is called --max-staleness now; rename it"),
    ("--flush-after", "is called --commit-interval now; rename it"),
    ("--gc-every", "is called --maintenance-every now; rename it"),
    ("--without", "is called --exclude-host now; rename it"),
    ("--busy-poll", "has no effect any more; remove it"),
];

/// A line for each former flag among the arguments of a command.
fn warnings(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let arguments: Vec<String> = arguments.take_while(|argument| argument != "--").collect();
    let is_given = |flag: &str| arguments.iter().any(|argument| argument.split('=').next() == Some(flag));
    let given = FORMER.iter().filter(|(former, _)| is_given(former));
    given.map(|(former, advice)| format!("{former} {advice}")).collect()
}

/// Warns of former flags in the arguments of this program.
pub fn warn_of_former_flags() {
    let arguments = std::env::args_os().filter_map(|argument| argument.into_string().ok());
    for warning in warnings(arguments) {
        // The flag has its effect also if no program reads the warning.
        let _ = writeln!(std::io::stderr(), "hexad: {warning}");
    }
}

#[cfg(test)]
mod tests {
    use super::warnings;

    #[test]
    fn each_former_flag_gets_one_warning() {
        let of = |text: &str| warnings(text.split(' ').map(str::to_owned));
        let freshness = "--freshness is called --max-staleness now; rename it";
        assert_eq!(of("hexad up --freshness=1s"), [freshness]);
        assert_eq!(of("hexad up --freshness 1s --gc-every 0").len(), 2);
        assert_eq!(of("hexad up --busy-poll 0"), ["--busy-poll has no effect any more; remove it"]);
        assert_eq!(of("hexad up --max-staleness 1s -- --freshness"), [""; 0]);
    }
}
