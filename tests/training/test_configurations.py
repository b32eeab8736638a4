from depgen.training.configurations import differences, flatten


def test_equal_settings_do_not_differ():
    settings = {"model": {"class_path": "M", "init_args": {"a": [1, {"b": None}], "c": {}}}}
    assert differences(settings, settings) == []


def test_every_difference_is_named():
    asked = {"a": 1, "b": {"c": [1, 2], "only": 3}, "same": "x"}
    held = {"a": 2, "b": {"c": [1, 5]}, "same": "x"}
    assert [str(each) for each in differences(asked, held)] == [
        "a: 1 given, 2 in the checkpoint",
        "b.c.1: 2 given, 5 in the checkpoint",
        "b.only: 3 given, nothing in the checkpoint",
    ]


def test_an_empty_part_is_still_a_setting():
    assert flatten({"a": {}, "b": []}) == {"a": {}, "b": []}
    assert len(differences({"a": {}}, {"a": {"b": 1}})) == 2
