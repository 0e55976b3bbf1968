"""Two users at work at the same time."""

from concurrent.futures import ThreadPoolExecutor

from tests.people import Person

PROJECTS = 200


def test_two_users_create_200_projects_each_at_the_same_time(person: Person, other: Person) -> None:
    def create(number: int) -> int:
        owner = (person, other)[number % 2]
        answer = owner.http.post("/my/projects/", json={"name": f"Project {number}"})
        return answer.status_code

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(create, range(2 * PROJECTS)))

    assert answers == [201] * 2 * PROJECTS
    for owner, odd in ((person, 0), (other, 1)):
        assert owner.http.get("/my/projects", params={"limit": 1}).json()["total"] == PROJECTS
        names = {
            item["name"]
            for offset in (0, 100)
            for item in owner.http.get("/my/projects", params={"limit": 100, "offset": offset}).json()["items"]
        }
        assert names == {f"Project {number}" for number in range(odd, 2 * PROJECTS, 2)}
