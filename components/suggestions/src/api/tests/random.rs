//! Random edits, which must yield the same trees as the same edits made with git.

use super::*;
use fastrand::Rng;

/// Names that exercise git's order of tree entries.
const FILES: [&str; 9] =
    ["a", "a.b", "a-b/c", "a0/d e", "dir/x", "dir/x.y", "dir/sub/deep/ü", "dir-/f", "zz/zz/zz/zz/z"];

fn file(rng: &mut Rng) -> Vec<u8> {
    let mut file = Vec::new();
    for _ in 0..rng.u64(1..=30) {
        let ends: [&[u8]; 3] = [b"\n", b"\r\n", b"\n"];
        file.extend((0..rng.u64(..12)).map(|_| rng.choice([b'a', b' ', 0xff, 1, b'\t', b'\r']).unwrap()));
        file.extend_from_slice(rng.choice(ends).unwrap());
    }
    if rng.u64(..3) == 0 {
        file.extend_from_slice(b"no end");
    }
    file
}

/// Lines with their line endings.
fn lines(file: &[u8]) -> Vec<Vec<u8>> {
    file.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

fn ending(line: &[u8]) -> &'static [u8] {
    match line {
        [.., b'\r', b'\n'] => b"\r\n",
        [.., b'\n'] => b"\n",
        _ => b"",
    }
}

/// `text` in place of the lines of a file from index `from` on, with the endings of these lines.
fn replacement(text: &str, file: &[Vec<u8>], from: usize) -> Vec<u8> {
    let ends: Vec<&[u8]> = file[from..].iter().map(|line| ending(line)).filter(|end| !end.is_empty()).collect();
    let above: &[u8] = if from > 0 { ending(&file[from - 1]) } else { b"\n" };
    let count = text.lines().count();
    let with_ending = |(index, line): (usize, &str)| {
        let inner = ends.get(index).or(ends.last()).copied().unwrap_or(above);
        let end = if index + 1 < count { inner } else { ending(&file[file.len() - 1]) };
        [line.as_bytes(), end].concat()
    };
    text.lines().enumerate().flat_map(with_ending).collect()
}

#[test]
fn the_same_edits_by_git_give_the_same_trees() {
    let mut rng = Rng::with_seed(7);
    for round in 0..12 {
        let files: Vec<(&str, Vec<u8>)> = FILES.iter().map(|path| (*path, file(&mut rng))).collect();
        let borrowed: Vec<(&str, &[u8])> = files.iter().map(|(path, contents)| (*path, contents.as_slice())).collect();
        let (forge, repository) = Forge::with(&borrowed);
        for _ in 0..3 {
            let head = forge.head(PUBLIC, "topic");
            let mut ids = Vec::new();
            for path in FILES.iter().filter(|_| rng.bool()).copied().collect::<Vec<_>>() {
                let mut edited = lines(&std::fs::read(repository.file(path)).unwrap());
                let count = edited.len() as u64;
                // From the end, so that the numbers of the lines above stay valid.
                let mut below = count + 1;
                while below > 1 && rng.u64(..3) > 0 {
                    let line = rng.u64(1..below);
                    let above = rng.u64(..3).min(line - 1);
                    let under = rng.u64(..3).min(below - 1 - line);
                    let text: String = (0..rng.u64(..4)).map(|n| format!("{round} {n} é\n")).collect();
                    let body = format!("````suggestion:-{above}+{under}\n{text}````");
                    let (from, to) = ((line - above - 1) as usize, (line + under) as usize);
                    let replaced = edited[from..to].concat();
                    let new = replacement(&text, &edited[..to], from);
                    below = line - above;
                    if new == replaced {
                        continue;
                    }
                    ids.push(forge.comment(1, "rep", comment(&head, path, line, &body)).expect(201).suggestion());
                    edited.splice(from..to, [new]);
                }
                repository.write(path, &edited.concat());
            }
            if ids.is_empty() {
                continue;
            }
            repository.git(&["-c", "core.autocrlf=false", "commit", "-q", "--allow-empty", "-a", "-m", "by git"]);
            forge.apply_all(&ids, "dev").expect(200);
            let tree = forge.clone(PUBLIC).text(&["rev-parse", "topic^{tree}"]);
            assert_eq!(tree, repository.text(&["rev-parse", "HEAD^{tree}"]));
            assert!(ids.iter().all(|id| forge.flags(*id) == (false, true)));
        }
    }
}
