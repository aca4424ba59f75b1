//! What visitors found wrong with the pages.

use super::double::Forge;

#[test]
fn a_project_that_is_named_by_its_id_has_its_path_in_headings() {
    let forge = Forge::new("plain");
    for (path, heading) in [
        ("/issues?project=104", "Issues of acme/plain"),
        ("/issues?group=100", "Issues of acme/plain"),
        ("/packages?project=104", "Packages of acme/plain"),
        ("/packages/@acme/lib?project=104", "/namespaces/acme/plain"),
        ("/merge_requests?project=104", "Merge requests of acme/plain"),
    ] {
        let page = forge.get(path, Some("developer-token"));
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        assert!(page.text.contains(heading) && !page.text.contains("/namespaces/10"), "{path}: {}", page.text);
    }
}
