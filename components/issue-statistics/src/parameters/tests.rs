use super::*;

fn read_with(level: &Level, license: License, query: &str) -> Result<Parameters, String> {
    read(&Params::parse(query), level, license)
        .map_err(|error| error.to_json()["error"].as_str().unwrap_or_default().to_owned())
}

fn instance(query: &str) -> Result<Parameters, String> {
    read_with(&Level::Instance, License::Ultimate, query)
}

fn project(query: &str) -> Result<Parameters, String> {
    read_with(&Level::Project("1".into()), License::Ultimate, query)
}

#[test]
fn the_scope_depends_on_the_endpoint() {
    let scope = |parameters: Result<Parameters, String>| parameters.map(|parameters| parameters.scope);
    assert_eq!(scope(instance("")), Ok(Scope::CreatedByMe));
    assert_eq!(scope(project("")), Ok(Scope::All));
    assert_eq!(scope(instance("scope=all")), Ok(Scope::All));
    assert_eq!(scope(project("scope=assigned-to-me")), Ok(Scope::AssignedToMe));
    assert_eq!(scope(instance("scope=assigned-to-me")), Err("scope does not have a valid value".into()));
    assert_eq!(scope(project("scope=mine")), Err("scope does not have a valid value".into()));
}

#[test]
fn each_error_has_its_text() {
    for (query, text) in [
        ("author_id=x", "author_id is invalid"),
        ("author_id=1&author_username=a", "author_id, author_username are mutually exclusive"),
        ("milestone=a&milestone_id=Any", "milestone_id, milestone are mutually exclusive"),
        ("milestone_id=any", "milestone_id does not have a valid value"),
        ("assignee_id=foo", "assignee_id should be an integer, none, or any, however got foo"),
        ("assignee_id=1&assignee_username[]=a", "assignee_id, assignee_username are mutually exclusive"),
        ("created_after=soon", "created_after is invalid"),
        ("updated_before=2020-13-01", "updated_before is invalid"),
        ("confidential=maybe", "confidential is invalid"),
        ("epic_id=x", "epic_id should be an integer, none, or any, however got x"),
        ("weight=heavy", "weight should be an integer, none, or any, however got heavy"),
        ("health_status=fine", "health_status does not have a valid value"),
        ("iteration_id=x", "iteration_id should be an integer, none, or any, however got x"),
        ("iteration_id=1&iteration_title=a", "iteration_id, iteration_title are mutually exclusive"),
        ("not=a", "not is invalid"),
        ("not[]=a", "not is invalid"),
        ("not[author_id]=x", "not[author_id] is invalid"),
        ("not[assignee_id]=None", "not[assignee_id] is invalid"),
        ("not[milestone]=a&not[milestone_id]=Any", "not[milestone_id], not[milestone] are mutually exclusive"),
        ("not[milestone_id]=x", "not[milestone_id] does not have a valid value"),
        ("author_id=x&confidential=z", "author_id is invalid, confidential is invalid"),
    ] {
        assert_eq!(instance(query), Err(text.to_owned()), "{query}");
    }
}

#[test]
fn a_form_that_is_not_read_is_an_error() {
    let names = "author_id author_username milestone milestone_id assignee_id weight iteration_id iteration_title";
    for name in names.split(' ') {
        for (query, name) in [
            (format!("{name}[]=2"), name.to_owned()),
            (format!("{name}[a]=2"), name.to_owned()),
            (format!("not[{name}][]=2"), format!("not[{name}]")),
        ] {
            assert_eq!(instance(&query), Err(format!("{name} is invalid")), "{query}");
        }
    }
    for name in SCALARS.iter().chain(&["epic_id", "health_status"]) {
        assert_eq!(instance(&format!("{name}[]=2")), Err(format!("{name} is invalid")));
    }
    for name in ["labels", "iids", "assignee_username"] {
        assert_eq!(instance(&format!("{name}[0]=1")), Err(format!("{name} is invalid")));
        assert_eq!(instance(&format!("not[{name}][a][]=1")), Err(format!("not[{name}] is invalid")));
        assert!(instance(&format!("{name}[]=1&{name}[]=2")).is_ok());
    }
    let free = |query: &str| read_with(&Level::Instance, License::Free, query);
    assert_eq!(free("weight[]=1&epic_id[]=2&health_status[]=x"), free(""));
}

#[test]
fn without_a_license_its_parameters_are_unknown() {
    let free = |query: &str| read_with(&Level::Instance, License::Free, query);
    let query = "epic_id=x&weight=x&iteration_id=x&iteration_title=y&health_status=x&not[weight]=z";
    assert_eq!(free(query), free(""));
    let expected = Err("assignee_username allows one value, but found 2: user1, user2".into());
    assert_eq!(free("assignee_username=user1,user2"), expected);
    assert_eq!(free("assignee_username[]=user1").unwrap().include.assignees, ["user1"]);
    let premium = |query: &str| read_with(&Level::Instance, License::Premium, query);
    assert_eq!(premium("health_status=x"), premium(""));
    assert_eq!(premium("weight=3").unwrap().include.weight, Some(ValueFilter::Is(3)));
}

#[test]
fn wildcards() {
    let parameters = instance(
        "assignee_id=nOnE&epic_id=ANY&weight=0&health_status=At_Risk&iteration_id=Current&my_reaction_emoji=any",
    )
    .unwrap();
    assert_eq!((parameters.include.assignee_id, parameters.epic), (Some(ValueFilter::None), Some(ValueFilter::Any)));
    let expected = (Some(ValueFilter::Is(0)), Some(ValueFilter::Current));
    assert_eq!((parameters.include.weight, parameters.include.iteration), expected);
    let expected = (Some(ValueFilter::Is("at_risk".into())), Some(ValueFilter::Any));
    assert_eq!((parameters.health, parameters.reaction), expected);
    let milestone = |query: &str| {
        let parameters = instance(query).unwrap();
        parameters.include.milestone.or(parameters.exclude.milestone).unwrap()
    };
    assert_eq!(milestone("milestone=none"), MilestoneFilter::None);
    assert_eq!(milestone("milestone=Any+Milestone"), MilestoneFilter::Any);
    assert_eq!(milestone("milestone=%23started"), MilestoneFilter::Started);
    assert_eq!(milestone("milestone_id=Upcoming"), MilestoneFilter::Upcoming);
    assert_eq!(milestone("milestone=1.0"), MilestoneFilter::Title("1.0".into()));
    assert_eq!(milestone("not[milestone]=None"), MilestoneFilter::Title("None".into()));
    assert_eq!(milestone("not[milestone_id]=None"), MilestoneFilter::None);
}

#[test]
fn lists_and_ignored_values() {
    let parameters = instance("labels=a,+b&iids[]=1&iids[]=x,3&state=nonsense&order_by=x&in=title,comments").unwrap();
    assert_eq!(parameters.include.labels, ["a", "b"]);
    assert_eq!(parameters.include.iids, Some(vec![1, 0, 3]));
    assert_eq!(parameters.fields, [Field::Title]);
    assert_eq!(instance("labels=&iids[]=&search=&in=nothing&author_id=&not[labels]="), instance(""));
    assert_eq!(instance("search=b+A&in=description,title").unwrap().search, ["a", "b"]);
}
