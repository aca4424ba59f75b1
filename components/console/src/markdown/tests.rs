//! The parts of Markdown that are shown, and the parts that are removed.

use super::*;

fn text(markdown: &str) -> String {
    render(markdown, Some("https://code.test/a/b/blob/HEAD/"), &Budget::default()).unwrap().into_string()
}

#[test]
fn readmes_look_as_people_expect() {
    assert!(text("# Use it\n\n## Use it").contains("<h2 id=\"text-use-it\">Use it</h2>"));
    assert!(text("# Use it\n\n## Use it").contains("<h3 id=\"text-use-it-1\">"));
    assert!(text("[x](#use-it)").contains("href=\"#text-use-it\""));
    assert!(text("[x](docs/a.md) [y](./b) [z](/c)").matches("https://code.test/a/b/blob/HEAD/").count() == 3);
    assert!(text("|a|b|\n|-|-:|\n|1|2|").contains("<table>"));
    assert!(text("- [x] done\n- [ ] open").contains("☑ done"));
    assert!(text("```js\nlet a = 1 < 2;\n```").contains("let a = 1 &lt; 2;"));
    assert!(text("~~gone~~").contains("<del>gone</del>"));
}

/// The usual parts of published packages' readmes, and how forges show them.
#[test]
fn the_usual_parts_of_readmes_are_kept() {
    for (markdown, expected) in [
        ("|a|b|\n|:-|-:|\n|1|2|", "<th align=\"right\">b</th>"),
        ("|a|\n|-|\n|`x \\| y`|", "<code>x | y</code>"),
        ("- [ ] a\n  - [x] b", "☑ b"),
        ("1. one\n2. two\n\n   more", "<ol>"),
        ("```\n<b>\n```", "<pre><code>&lt;b&gt;\n</code></pre>"),
        ("    indented", "<pre><code>indented"),
        ("~~~sh\nrun\n~~~", "run\n</code></pre>"),
        ("Title\n=====", "<h2 id=\"text-title\">"),
        ("## `code()` & more!", "id=\"text-code--more\""),
        ("## Über größe", "id=\"text-über-größe\""),
        ("## 日本語", "id=\"text-日本語\""),
        ("> quoted", "<blockquote>"),
        ("a<br>b", "a<br>b"),
        ("<details><summary>s</summary>\n\n*x*\n\n</details>", "<summary>s</summary>"),
        ("<h1 align=center>Name</h1>", "<h1>Name</h1>"),
        ("<kbd>Ctrl</kbd>", "<kbd>Ctrl</kbd>"),
        ("H<sub>2</sub>O", "<sub>2</sub>"),
        ("<https://code.test/x>", "href=\"https://code.test/x\""),
        ("[a]: https://code.test/y\n\n[a]", "href=\"https://code.test/y\""),
        ("[mail](mailto:a@code.test)", "href=\"mailto:a@code.test\""),
        ("[x](LICENSE)", "href=\"https://code.test/a/b/blob/HEAD/LICENSE\""),
        ("[x](../other#top)", "href=\"https://code.test/a/b/blob/HEAD/../other#top\""),
        ("![logo](img/logo.png)", ">logo</a>"),
        ("[![build](https://ci.test/b.svg)](https://ci.test)", "build"),
        ("note[^1]\n\n[^1]: said", "said"),
        ("<!-- hidden -->shown", "shown"),
        ("a\\*b", "a*b"),
        ("***", "<hr"),
    ] {
        let shown = text(markdown);
        assert!(shown.contains(expected), "{expected:?} is not in {shown:?} of {markdown:?}");
    }
    assert!(!text("<!-- hidden -->shown").contains("hidden"));
}

#[test]
fn nothing_is_loaded_and_nothing_runs() {
    for hostile in [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "![x](https://evil.test/pixel.png)",
        "[x](javascript:alert(1))",
        "[x](data:text/html,<script>alert(1)</script>)",
        "<a href=\" java\nscript:alert(1)\">x</a>",
        "<iframe src=https://evil.test></iframe>",
        "<form action=https://evil.test><input name=q></form>",
        "<style>*{display:none}</style>",
        "<p style=\"position:fixed\" class=top id=main onclick=alert(1)>x</p>",
        "<svg><script>alert(1)</script></svg>",
        "<math><mi xlink:href=\"javascript:alert(1)\">x</mi></math>",
        "<base href=https://evil.test>",
        "<meta http-equiv=refresh content=0>",
        "<link rel=stylesheet href=https://evil.test>",
        "[x](//evil.test/y)",
    ] {
        let clean = text(hostile);
        let parts = "<script <img <iframe <form <input <style style= class= onclick onerror javascript: data: <svg \
            <base <meta <link id=\"main\" //evil.test/y";
        for forbidden in parts.split(' ') {
            assert!(!clean.contains(forbidden), "{forbidden} in {clean} of {hostile}");
        }
    }
    assert_eq!(text("![x](https://evil.test/p.png)").matches("<a ").count(), 1);
}

#[test]
fn repositories_have_pages() {
    for (repository, expected) in [
        ("git+https://code.test/a/b.git", Some("https://code.test/a/b")),
        ("git@code.test:a/b.git", Some("https://code.test/a/b")),
        ("git://code.test/a/b", Some("https://code.test/a/b")),
        ("github:a/b", Some("https://github.com/a/b")),
        ("javascript:alert(1)", None),
        ("https://code.test/\"><script>", None),
    ] {
        assert_eq!(web_url(repository).as_deref(), expected, "{repository}");
    }
    let base = |directory| repository_base("git+https://code.test/a/b.git", Some(directory)).unwrap();
    assert_eq!(base("packages/x"), "https://code.test/a/b/blob/HEAD/packages/x/");
    assert_eq!(base("../<x>"), "https://code.test/a/b/blob/HEAD/%3Cx%3E/");
}

/// Texts of 64 KiB and more that would take seconds or all memory.
#[test]
fn a_text_that_costs_too_much_shows_its_source() {
    let open_italics: String = (0..2000).map(|id| format!("<i id={id}>")).collect();
    let attributes: String = (0..60_000).map(|number| format!("a{number} ")).collect();
    for costly in [
        ">".repeat(100_000),
        "- ".repeat(60_000) + "x",
        "> - ".repeat(20_000),
        "> ".repeat(10_000) + "a\n" + &"b\n".repeat(30_000),
        "[^1]: ".repeat(10_000) + "a",
        "*".repeat(30_000) + "a" + &"*".repeat(30_000),
        "&".repeat(300_000),
        "|a".repeat(3000) + "|\n" + &"|-".repeat(3000) + "|\n" + &"a\n".repeat(30_000),
        open_italics + &"<p>x".repeat(5000),
        "<div>".repeat(60_000) + "x",
        "<table>x".repeat(50_000),
        "<ul><li>".repeat(30_000),
        "<details><summary>".repeat(30_000),
        "<b></p>".repeat(20_000),
        "<a><div>".repeat(5000) + &"</a>".repeat(5000),
        "<script><!--</script>".to_owned() + &"<div>".repeat(60_000),
        "<svg><style>".to_owned() + &"<div>".repeat(60_000),
        format!("<i {attributes}>"),
        format!("<!-- <i a=' -->\n\n<i b=\"'>\" {attributes}>"),
    ] {
        let start = costly.get(..40).unwrap();
        assert!(render(&costly, None, &Budget::default()).is_none(), "{start}");
        let page = show(&costly, None, &Budget::default()).into_string();
        assert!(page.contains("too complex") && page.contains("<pre><code>"), "{start}");
        assert!(page.len() < 800_000, "{start}: {}", page.len());
    }
}

#[test]
fn long_texts_of_people_are_rendered() {
    for (text, expected) in [
        (
            "# Use\n\nSome *words* and a [link](https://code.test).\n\n- one\n- two\n\n".repeat(800),
            "<h2 id=\"text-use-799\">",
        ),
        ("<tr><td><a href=\"https://code.test\"><b>x</b></a></td>\n".repeat(1000), "<a "),
        ("<p align=center><img src=a>\n\ntext\n\n".repeat(500), "<p>text</p>"),
        (format!("<!-- {} -->\n\nshown", "word ".repeat(5000)), "shown"),
        (format!("<img src=\"data:image/png;base64,{}\"> shown", "abc/".repeat(10_000)), "shown"),
        ("## a\n\n## a-1\n\n## a\n\n".to_owned(), "id=\"text-a-2\""),
    ] {
        assert!(
            render(&text, None, &Budget::default()).is_some_and(|page| page.into_string().contains(expected)),
            "{expected}"
        );
    }
}

#[test]
fn the_texts_of_a_page_have_one_budget() {
    let (budget, text) = (Budget::default(), "some *words*\n\n".repeat(3000));
    let rendered = (0..100).filter(|_| render(&text, None, &budget).is_some()).count();
    assert!((2..50).contains(&rendered), "{rendered}");
    // A text that is refused before it is parsed costs little.
    let budget = Budget::default();
    assert!((0..20).all(|_| render(&">".repeat(10_000), None, &budget).is_none()));
    assert!(render("# Title", None, &budget).is_some());
}
