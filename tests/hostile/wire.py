"""Raw HTTP: what noised does with each case of http.jsonl, alone and behind nginx and haproxy as deploy/ sets them up, where
others who come after each must get their own answers; and what nginx, haproxy and lighttpd do by themselves."""
import contextlib
import os
import re
import shutil
import socket
import tempfile
import time

from hostile import Report, TREE, cases, daemon, free_port, post, started

REFUSALS = (400, 408, 411, 413, 414, 417, 431, 494, 501, 505)
MODEL = os.path.join(TREE, "weights/demo")
PATIENT = [word for limit in ("header", "body", "idle") for word in (f"--{limit}-seconds", "1e5")]  # closes for no age


def exchange(port, data, quiet, by_bytes=0):
    """The socket, all that comes until the other side closes or says nothing more for `quiet` seconds, and whether it
    closed. The first `by_bytes` bytes go each by itself, as a slow client's: where a cut falls must not matter."""
    s = socket.create_connection(("127.0.0.1", port), timeout=30)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    text, closed = b"", False
    try:
        for i in range(min(len(data), by_bytes)):
            s.send(data[i : i + 1])
        s.sendall(data[by_bytes:])
        s.settimeout(quiet)
        while not closed:
            more = s.recv(65536)
            text, closed = text + more, not more
    except socket.timeout:
        pass
    except OSError:
        closed = True
    return s, text, closed


def statuses(text):
    return [int(m) for m in re.findall(rb"(?:^|[\n}])HTTP/1\.[01] (\d{3})", text) if m != b"100"]


def is_bad(case):
    return case["status"] in REFUSALS


def check_alone(report, port, case):
    for cut, by_bytes in (("whole", 0), ("byte by byte", 300)):
        s, text, closed = exchange(port, case["bytes"].encode("latin-1"), 30, by_bytes)
        s.close()
        got, want = statuses(text), [case["status"]] + [200] * (case["answers"] - 1)
        report.check(f"{case['name']} ({cut})", got == want and closed and b"<html" not in text,
                     f"{got}{'' if closed else ', open'}, not {want}: {case['rule']}")


# ---- behind a proxy ----


def victim(port, name):
    """Asks for a model of its own, whose name is in the answer."""
    status, text = post(port, '{"model":"%s"}' % name, "/v1/completions")
    return status == 404 and name.encode() in text, (status, text[:200])


def check_behind(report, what, port, all_cases):
    for i, case in enumerate(all_cases):
        s, text, _ = exchange(port, case["bytes"].encode("latin-1"), 0.15)
        told = []
        for k in range(3):
            right, got = victim(port, f"victim-{i}-{k}")
            told += [] if right else [got]
            if k == 0:
                s.close()
        report.check(f"{case['name']}, the next ones behind {what}", not told, told)


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def deployed(name, *changes):
    with open(os.path.join(TREE, "deploy", name), encoding="utf-8") as f:
        text = f.read()
    for pattern, by in changes:
        text, n = re.subn(pattern, by, text)
        assert n, f"deploy/{name} has no {pattern}"
    return text


NGINX = """daemon off; worker_processes 1; pid {0}/pid; error_log {0}/errors;
events {{ worker_connections 512; }}
http {{ access_log off; client_body_temp_path {0}/body; proxy_temp_path {0}/proxy; fastcgi_temp_path {0}/fastcgi;
uwsgi_temp_path {0}/uwsgi; scgi_temp_path {0}/scgi;
{1}
}}
"""


@contextlib.contextmanager
def nginx_over(server):
    folder, port = tempfile.mkdtemp(), free_port()
    os.chmod(folder, 0o755)
    conf = write(folder, "conf", NGINX.format(folder, server.replace("@PORT@", str(port))))
    with started(["nginx", "-p", folder, "-c", conf], port, "nginx"):
        yield port
    shutil.rmtree(folder)


def nginx_front(back):
    return nginx_over(deployed("nginx.conf", (r"listen 443 ssl;", "listen 127.0.0.1:@PORT@;"), (r"ssl_.*;\n", ""),
                               (r"127\.0\.0\.1:8080", f"127.0.0.1:{back}")))


@contextlib.contextmanager
def haproxy_over(text):
    folder, port = tempfile.mkdtemp(), free_port()
    conf = write(folder, "conf", text.replace("@PORT@", str(port)))
    with started(["haproxy", "-f", conf, "-db"], port, "haproxy"):
        time.sleep(0.5)  # its first look at /health
        yield port
    shutil.rmtree(folder)


def haproxy_front(back):
    return haproxy_over(deployed("haproxy.cfg", (r"bind 127\.0\.0\.1:8080", "bind 127.0.0.1:@PORT@"),
                                 (r"server a .*\n", f"server a 127.0.0.1:{back}\n"), (r" *server [bc] .*\n", ""),
                                 (r" *(user|group) haproxy\n", ""), ("/etc/haproxy/", os.path.join(TREE, "deploy", ""))))


# ---- by themselves ----


@contextlib.contextmanager
def lighttpd_alone():
    folder, port = tempfile.mkdtemp(), free_port()
    os.mkdir(os.path.join(folder, "v1"))
    write(folder, "v1/models", "{}")
    conf = write(folder, "conf", f'server.document-root = "{folder}"\nserver.port = {port}\nserver.bind = "127.0.0.1"\n')
    with started(["lighttpd", "-D", "-f", conf], port, "lighttpd"):
        yield port
    shutil.rmtree(folder)


def nginx_alone():
    return nginx_over("server { listen 127.0.0.1:@PORT@; location / { return 200 '{}'; } }")


def haproxy_alone():
    return haproxy_over("defaults\n mode http\n timeout client 5s\n timeout http-request 5s\nfrontend f\n"
                        " bind 127.0.0.1:@PORT@\n http-request return status 200 content-type text/plain string {}\n")


def verdict(port, case):
    """Of the first request alone: what comes behind it is only seen where the first one passed."""
    s, text, closed = exchange(port, case["bytes"].encode("latin-1"), 0.3)
    s.close()
    got = statuses(text)
    if not got:
        return "no answer"
    return "refused" if got[0] in REFUSALS else "accepted"


def compare(noised):
    """The table of docs/reliability.md."""
    rivals = {"nginx": nginx_alone, "haproxy": haproxy_alone, "lighttpd": lighttpd_alone}
    bad = [c for c in cases("http") if is_bad(c)]
    legal = [c for c in cases("http") if not is_bad(c)]
    print(f"| {len(bad)} malformed, {len(legal)} legal | malformed: refused | closed in silence | accepted | "
          "legal: served | refused |\n|---|--:|--:|--:|--:|--:|")
    for name in ["noised", *rivals]:
        if name != "noised" and not shutil.which(name):
            print(f"| {name} | not installed | | | | |")
            continue
        with contextlib.nullcontext(noised) if name == "noised" else rivals[name]() as port:
            of_bad = [verdict(port, c) for c in bad]
            of_legal = [verdict(port, c) for c in legal]
        counts = [of_bad.count(v) for v in ("refused", "no answer", "accepted")]
        counts += [of_legal.count("accepted"), len(legal) - of_legal.count("accepted")]
        print(f"| {name} | " + " | ".join(map(str, counts)) + " |", flush=True)


def run(quick):
    report, all_cases = Report("http"), cases("http")
    with daemon(MODEL, *PATIENT) as port:
        for case in all_cases:
            check_alone(report, port, case)
        if not quick:
            for name, front in (("nginx", nginx_front), ("haproxy", haproxy_front)):
                if not shutil.which(name):
                    print(f"http: {name} is not installed: nobody is asked behind it")
                    continue
                with front(port) as proxy:
                    check_behind(report, name, proxy, all_cases)
            compare(port)
    return report.end()
