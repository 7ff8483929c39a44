"""The compile cache: what makes a hit, and that nothing on disk can break a compile."""

import dataclasses
import errno
import hashlib
import logging
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from tilewright.settings import read_settings
from tilewright.toolchain import Artifact, CompileCache, compile_cuda, nvrtc
from tilewright.toolchain.cache import cache_key, default_cache

SOURCE = "__global__ void k(int* p) { p[0] = 7; }\n"


def artifact(number=0):
    return Artifact(
        name="k",
        symbol="_Z1kPi",
        arch="sm_90",
        ptx=f"// {number} é\n",
        cubin=bytes(range(256)) * 40 + number.to_bytes(4, "little"),
        log="",
        compiler="NVRTC 13.0",
        source_name="k.cu",
        source=SOURCE,
    )


@pytest.fixture
def runs(monkeypatch):
    """The number of times that NVRTC really ran, as a list with one entry a run."""
    ran = []
    real = nvrtc.run_nvrtc

    def counting(*args, **kwargs):
        ran.append(kwargs["expression"])
        return real(*args, **kwargs)

    monkeypatch.setattr(nvrtc, "run_nvrtc", counting)
    return ran


@pytest.fixture
def entries(tmp_path):
    """The entry files in the cache folder."""
    return lambda: sorted((tmp_path / "cache").rglob("*.json"))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


class TestKey:
    def test_is_the_hash_of_canonical_json(self):
        text = b'{"a":[1,"x"],"b":"\\u00e9","schema":1}'
        assert cache_key({"b": "é", "a": (1, "x")}) == hashlib.sha256(text).hexdigest()

    @pytest.fixture
    def project(self, tmp_path, runs):
        """A source with a header in a header; calling it compiles and says whether NVRTC ran."""
        (tmp_path / "lib").mkdir()
        (tmp_path / "k.cu").write_text('#include "lib/a.cuh"\n#include "c.cuh"\n' + SOURCE)
        (tmp_path / "lib" / "a.cuh").write_text("#include <b.cuh>\n")
        (tmp_path / "lib" / "b.cuh").write_text("// inner\n")
        (tmp_path / "lib" / "c.cuh").write_text("// by its folder\n")
        (tmp_path / "lib" / "unused.cuh").write_text("// unused\n")
        cache = CompileCache(None)

        def compiles(path=tmp_path / "k.cu", kernel="k", **options):
            before = len(runs)
            options.setdefault("include_dirs", [tmp_path / "lib"])
            compile_cuda(path, kernel, cache=cache, **options)
            return len(runs) > before

        assert compiles()
        assert not compiles()
        return compiles

    @pytest.mark.parametrize("name", ["k.cu", "lib/a.cuh", "lib/b.cuh", "lib/c.cuh"])
    def test_every_file_counts(self, project, tmp_path, name):
        path = tmp_path / name
        path.write_text(path.read_text() + "// changed\n")
        assert project()
        assert not project()

    def test_other_files_do_not(self, project, tmp_path):
        (tmp_path / "lib" / "c.cuh").write_text("// by its folder\n")
        (tmp_path / "lib" / "unused.cuh").write_text("// changed\n")
        assert not project()

    def test_arch_options_and_kernel_count(self, project):
        assert project(arch="sm_80")
        assert project(options=["-DX=1"])
        assert project(options=["-DX=2"])
        assert project(kernel="&k")
        assert not project(options=["-DX=1"])

    def test_version_of_nvrtc_counts(self, project, monkeypatch):
        loaded = nvrtc.load_nvrtc()
        other = dataclasses.replace(loaded, version=(loaded.version[0], 99))
        monkeypatch.setattr(nvrtc, "load_nvrtc", lambda: other)
        assert project()

    def test_name_of_the_source_counts_but_not_its_folder(self, project, tmp_path):
        # The PTX names the file, so the two differ.
        text = (tmp_path / "k.cu").read_text()
        (tmp_path / "other.cu").write_text(text)
        assert project(path=tmp_path / "other.cu")
        elsewhere = tmp_path / "elsewhere"
        (elsewhere / "lib").mkdir(parents=True)
        (elsewhere / "k.cu").write_text(text)
        for name in ("a.cuh", "b.cuh", "c.cuh"):
            (elsewhere / "lib" / name).write_text((tmp_path / "lib" / name).read_text())
        assert not project(path=elsewhere / "k.cu", include_dirs=[elsewhere / "lib"])

    def test_a_header_that_comes_to_stand_before_another(self, tmp_path):
        first, second = tmp_path / "first", tmp_path / "second"
        for include in (first, second):
            include.mkdir()
        (second / "value.cuh").write_text("#define VALUE 1111\n")
        source = "#include <value.cuh>\n__global__ void k(int* p) { p[0] = VALUE; }\n"
        cache = CompileCache(None)
        assert "1111;" in compile_cuda(source, "k", include_dirs=[first, second], cache=cache).ptx
        (first / "value.cuh").write_text("#define VALUE 2222\n")
        assert "2222;" in compile_cuda(source, "k", include_dirs=[first, second], cache=cache).ptx

    def test_an_include_by_macro_is_never_cached(self, tmp_path, runs):
        header = tmp_path / "value.cuh"
        source = '#define FILE "value.cuh"\n#include FILE\n__global__ void k(int* p) { *p = V; }\n'
        cache = CompileCache(None)
        for value in ("3333", "4444"):
            header.write_text(f"#define V {value}\n")
            found = compile_cuda(source, "k", include_dirs=[tmp_path], cache=cache)
            assert f"{value};" in found.ptx
        assert len(runs) == 2


class TestDisk:
    def test_another_process_reads_what_one_wrote(self, folder, runs):
        made = compile_cuda(SOURCE, "k", cache=CompileCache(folder))
        read = compile_cuda(SOURCE, "k", cache=CompileCache(folder))
        assert read == made
        assert len(runs) == 1

    def test_hit_is_fast(self, folder):
        cache = CompileCache(folder)
        compile_cuda(SOURCE, "k", cache=cache)

        def seconds(cache):
            start = time.perf_counter()
            compile_cuda(SOURCE, "k", cache=cache)
            return time.perf_counter() - start

        assert min(seconds(cache) for _ in range(5)) < 0.005
        assert min(seconds(CompileCache(folder)) for _ in range(5)) < 0.005

    @pytest.mark.parametrize(
        "damage",
        [
            lambda data: b"",
            lambda data: data[: len(data) // 2],
            lambda data: data[:-1],
            lambda data: b"not an entry\n" + data,
            lambda data: data.replace(b'"name": "k"', b'"name": "q"'),
            lambda data: data.split(b"\n")[0] + b"\n{}",
        ],
        ids=["empty", "half", "last byte", "garbage", "flipped", "payload"],
    )
    def test_damaged_entry_is_a_miss_and_is_rewritten(self, folder, entries, runs, caplog, damage):
        made = compile_cuda(SOURCE, "k", cache=CompileCache(folder))
        (entry,) = entries()
        good = entry.read_bytes()
        entry.write_bytes(damage(good))
        assert entry.read_bytes() != good
        with caplog.at_level(logging.WARNING):
            assert compile_cuda(SOURCE, "k", cache=CompileCache(folder)) == made
        assert len(runs) == 2
        assert "damaged compile cache entry" in caplog.text
        assert entry.read_bytes() == good

    def test_entry_of_another_key_is_a_miss(self, folder, entries, caplog):
        cache = CompileCache(folder)
        cache.put("aa" * 32, artifact())
        (entry,) = entries()
        other = entry.parent.parent / "bb" / f"{'bb' * 32}.json"
        other.parent.mkdir()
        other.write_bytes(entry.read_bytes())
        assert CompileCache(folder).get("bb" * 32) is None
        assert "belongs to another key" in caplog.text

    def test_entry_with_other_fields_is_a_miss(self, folder, entries, caplog):
        cache = CompileCache(folder)
        cache.put("aa" * 32, artifact())
        (entry,) = entries()
        payload = entry.read_bytes().split(b"\n", 1)[1].replace(b'"arch"', b'"arc"')
        digest = hashlib.sha256(payload).hexdigest()
        entry.write_bytes(f"tilewright-artifact {digest}\n".encode() + payload)
        assert CompileCache(folder).get("aa" * 32) is None
        assert "not an artifact's" in caplog.text

    def test_folder_that_cannot_be_made(self, tmp_path, runs, caplog):
        (tmp_path / "file").write_text("")
        cache = CompileCache(tmp_path / "file" / "cache")
        for source in (SOURCE, SOURCE, "// another\n" + SOURCE):
            assert compile_cuda(source, "k", cache=cache).symbol == "_Z1kPi"
        assert len(runs) == 2
        assert caplog.text.count("kept in memory only") == 1

    def test_full_disk(self, folder, monkeypatch, caplog):
        def full(_descriptor):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        cache = CompileCache(folder)
        for number in range(3):
            cache.put(f"{number:064}", artifact(number))
            assert cache.get(f"{number:064}") == artifact(number)
        assert caplog.text.count("No space left on device") == 1
        assert [path for path in folder.rglob("*") if path.is_file()] == []

    def test_writes_are_renamed_into_place(self, folder, monkeypatch):
        seen = []
        real = os.replace

        def replace(temporary, target):
            seen.append((Path(target).exists(), Path(temporary).read_bytes()[:20]))
            real(temporary, target)

        monkeypatch.setattr(os, "replace", replace)
        CompileCache(folder).put("aa" * 32, artifact())
        assert seen == [(False, b"tilewright-artifact ")]


class TestMemory:
    def test_no_folder_writes_nothing(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        cache = CompileCache(None)
        cache.put("aa", artifact())
        assert cache.get("aa") == artifact()
        assert cache.get("bb") is None
        assert list(tmp_path.iterdir()) == []

    def test_least_recently_used_goes_first(self):
        cache = CompileCache(None, entries=2)
        cache.put("a", artifact(1))
        cache.put("b", artifact(2))
        cache.get("a")
        cache.put("c", artifact(3))
        assert [cache.get(key) is not None for key in "abc"] == [True, False, True]


class TestSettings:
    def test_folder(self, tmp_path):
        assert read_settings({"TILEWRIGHT_CACHE_DIR": str(tmp_path)}).cache_dir == tmp_path
        assert read_settings({"TILEWRIGHT_CACHE_DIR": "0"}).cache_dir is None
        assert read_settings({"TILEWRIGHT_CACHE_DIR": "~/c"}).cache_dir == Path.home() / "c"
        users = read_settings({}).cache_dir
        assert users.name == "tilewright"
        assert read_settings({"TILEWRIGHT_CACHE_DIR": ""}).cache_dir == users

    def test_cuda_home(self):
        assert read_settings({}).cuda_home is None
        assert read_settings({"CUDA_PATH": "/a"}).cuda_home == Path("/a")
        assert read_settings({"CUDA_PATH": "/a", "CUDA_HOME": "/b"}).cuda_home == Path("/b")

    def test_default_cache_follows_the_environment(self, tmp_path, monkeypatch, entries):
        monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
        assert default_cache() is default_cache()
        compile_cuda(SOURCE, "k")
        assert len(entries()) == 1


def hammer(folder, seed, barrier, results):
    """Write, read and damage the same few entries; report every wrong answer."""
    barrier.wait()
    wrong = 0
    for turn in range(40):
        number = (seed + turn) % 5
        key = f"{number:064}"
        cache = CompileCache(folder)  # nothing in memory: each get reads the file
        found = cache.get(key)
        wrong += found is not None and found != artifact(number)
        cache.put(key, artifact(number))
        if seed == 0:
            path = folder / "artifacts-1" / key[:2] / f"{key}.json"
            path.write_bytes(path.read_bytes()[:100])
    results.put(wrong)


def test_many_processes(folder, entries):
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(8), context.Queue()
    workers = [
        context.Process(target=hammer, args=(folder, seed, barrier, results)) for seed in range(8)
    ]
    for worker in workers:
        worker.start()
    assert [results.get(timeout=60) for _ in workers] == [0] * 8
    for worker in workers:
        worker.join(timeout=60)
        assert worker.exitcode == 0
    assert len(entries()) == 5
    assert list(folder.rglob(".part-*")) == []
