"""Uses a repository with a Python library. Prints the results as one JSON object.

usage: git_client.py LIBRARIES CLIENT URL TOKEN PUBLIC_URL FOLDER

Clones with the token, and without one; clones the last commit only; commits and pushes to a branch of its own;
fetches that into the first clone.
"""

import json
import os
import sys

libraries, client, url, token, public_url, folder = sys.argv[1:]
sys.path.insert(0, libraries)

AUTHOR = "A", "a@example.com"
BRANCH = "by-client"


def path(name):
    return os.path.join(folder, name)


def write(clone):
    """Writes a new file into a clone. Returns its path."""
    name = os.path.join(clone, "new.txt")
    with open(name, "w") as file:
        file.write(client)
    return name


class Pygit2:
    def __init__(self):
        import pygit2

        self.git = pygit2
        self.refused = pygit2.GitError
        # libgit2 looks for a configuration in the home folder of the machine's user.
        for level in ("GLOBAL", "XDG", "SYSTEM"):
            pygit2.settings.search_path[getattr(pygit2.enums.ConfigLevel, level)] = ""

    def callbacks(self):
        return self.git.RemoteCallbacks(credentials=self.git.UserPass("git", token))

    def clone(self, address, name, depth=0, with_token=True):
        callbacks = self.callbacks() if with_token else None
        return self.git.clone_repository(address, path(name), callbacks=callbacks, depth=depth)

    def head(self, repository, branch=None):
        name = f"refs/remotes/origin/{branch}" if branch else "HEAD"
        return str(repository.revparse_single(name).id)

    def commits(self, repository):
        return sum(1 for _ in repository.walk(repository.head.target))

    def push(self, repository):
        author = self.git.Signature(*AUTHOR, 1700000000, 0)
        write(repository.workdir)
        repository.index.add("new.txt")
        tree = repository.index.write_tree()
        name = f"refs/heads/{BRANCH}"
        commit = repository.create_commit(name, author, author, client, tree, [repository.head.target])
        repository.remotes["origin"].push([name], callbacks=self.callbacks())
        return str(commit)

    def fetch(self, repository):
        repository.remotes["origin"].fetch(callbacks=self.callbacks())

    def close(self, repository):
        repository.free()


class Dulwich:
    def __init__(self):
        from dulwich import porcelain
        from dulwich.client import HTTPUnauthorized

        self.git = porcelain
        self.refused = HTTPUnauthorized
        self.quiet = {"errstream": open(os.devnull, "wb")}
        self.credentials = {"username": "git", "password": token}

    def clone(self, address, name, depth=0, with_token=True):
        credentials = self.credentials if with_token else {}
        return self.git.clone(address, path(name), depth=depth or None, **self.quiet, **credentials)

    def head(self, repository, branch=None):
        return repository.refs[f"refs/remotes/origin/{branch}".encode() if branch else b"HEAD"].decode()

    def commits(self, repository):
        return sum(1 for _ in repository.get_walker())

    def push(self, repository):
        self.git.add(repository, [write(repository.path)])
        identity = f"{AUTHOR[0]} <{AUTHOR[1]}>".encode()
        commit = self.git.commit(repository, message=client.encode(), author=identity, committer=identity)
        refspec = f"HEAD:refs/heads/{BRANCH}"
        self.git.push(repository, url, refspec, outstream=self.quiet["errstream"], **self.quiet, **self.credentials)
        return commit.decode()

    def fetch(self, repository):
        self.git.fetch(repository, "origin", outstream=self.quiet["errstream"], **self.quiet, **self.credentials)

    def close(self, repository):
        repository.close()


class GitPython:
    def __init__(self):
        import git

        self.git = git
        self.refused = git.GitCommandError

    def clone(self, address, name, depth=0, with_token=True):
        if with_token:
            address = address.replace("://", f"://git:{token}@")
        more = {"depth": depth} if depth else {}
        return self.git.Repo.clone_from(address, path(name), env={"GIT_TERMINAL_PROMPT": "0"}, **more)

    def head(self, repository, branch=None):
        return repository.commit(f"origin/{branch}" if branch else "HEAD").hexsha

    def commits(self, repository):
        return sum(1 for _ in repository.iter_commits())

    def push(self, repository):
        repository.index.add([write(repository.working_tree_dir)])
        author = self.git.Actor(*AUTHOR)
        commit = repository.index.commit(client, author=author, committer=author)
        repository.remotes.origin.push(f"HEAD:refs/heads/{BRANCH}").raise_if_error()
        return commit.hexsha

    def fetch(self, repository):
        repository.remotes.origin.fetch()

    def close(self, repository):
        repository.close()


git = {"pygit2": Pygit2, "dulwich": Dulwich, "GitPython": GitPython}[client]()
first, second = git.clone(url, "first"), git.clone(url, "second")
shallow, public = git.clone(url, "shallow", depth=1), git.clone(public_url, "public", with_token=False)
seen = {
    "head": git.head(first),
    "commits": git.commits(first),
    "shallow": [git.head(shallow), git.commits(shallow)],
    "public": git.head(public),
    "pushed": git.push(second),
}
git.fetch(first)
seen["fetched"] = git.head(first, BRANCH)
for repository in (first, second, shallow, public):
    git.close(repository)
try:
    git.clone(url, "anonymous", with_token=False)
except git.refused:
    seen["refused"] = True
print(json.dumps(seen))
