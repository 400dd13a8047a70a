"""The process that runs an answer: limits itself, runs the program, then answers calls.

Its text follows that of `values.py`. Nothing that happens here is trusted: the judge sends
arguments and gets plain values back; it compares them in its own process.
"""

import ctypes
import os
import platform
import resource
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    # in the process these stand above
    from flash_dllm.evaluation.answers.values import (
        Unspeakable,
        decode,
        encode,
        read_line,
        write_line,
    )

# syscalls that an answer has no need of: (number on x86-64, on arm64), None where there is none
_REFUSED = {
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "socket": (41, 198), "kill": (62, 129), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "setpgid": (109, 154), "setsid": (112, 157),
    # a user namespace of its own, in which it may mount what it likes
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40),
    # memory that no limit counts, some of which outlives the process
    "memfd_create": (319, 279), "shmget": (29, 194), "msgget": (68, 186), "mq_open": (240, 180),
    "add_key": (248, 217), "keyctl": (250, 219),
    # large parts of the kernel
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "pidfd_send_signal": (424, 424),
}  # fmt: skip
_CLONE3 = 435
# by machine: column above, audit number, clone
_MACHINES = {"x86_64": (0, 0xC000003E, 56), "aarch64": (1, 0xC00000B7, 220)}


def limit(cpu_seconds, memory_bytes, file_bytes):
    """Processor time, memory, file size and how many are open; no core files."""
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def refuse_syscalls():
    """No new processes or programs, no sockets, no signals to others: a seccomp filter.

    Threads stay possible. Returns whether the filter is on (Linux on x86-64 and arm64).
    """
    machine = _MACHINES.get(platform.machine())
    if not sys.platform.startswith("linux") or machine is None:
        return False
    column, audit, clone = machine
    refused = [numbers[column] for numbers in _REFUSED.values() if numbers[column] is not None]
    load, jump_equal, jump_least, jump_set, give = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, deny, absent, kill = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
    program = [(load, 0, 0, 4), (jump_equal, 1, 0, audit), (give, 0, 0, kill), (load, 0, 0, 0)]
    # x86-64's second table of syscalls
    program += [(jump_least, 0, 1, 0x40000000), (give, 0, 0, deny)]
    # glibc falls back to clone where clone3 is absent
    program += [(jump_equal, 0, 1, _CLONE3), (give, 0, 0, absent)]
    for number in refused:
        program += [(jump_equal, 0, 1, number), (give, 0, 0, deny)]
    # clone: only with CLONE_THREAD
    program += [(jump_equal, 0, 3, clone), (load, 0, 0, 16), (jump_set, 1, 0, 0x10000)]
    program += [(give, 0, 0, deny), (give, 0, 0, allow)]
    code = b"".join(struct.pack("HBBI", *line) for line in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) != 0:
        return False
    return libc.prctl(set_seccomp, filter_mode, header, 0, 0) == 0


def end_with_parent():
    """Be killed when the judge ends, however it ends (Linux)."""
    set_death_signal, kill = 1, 9
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(set_death_signal, kill, 0, 0, 0)


def serve(lines_in, lines_out, namespace):
    """Answer calls until the judge hangs up."""
    objects = []

    def handle(value):
        objects.append(value)
        return len(objects) - 1

    def run(message):
        target = namespace[message["name"]] if "name" in message else objects[message["object"]]
        arguments = [decode(part, objects.__getitem__) for part in message["arguments"]]
        keywords = {k: decode(v, objects.__getitem__) for k, v in message["keywords"].items()}
        operation = message["operation"]
        if operation == "call":
            value = target(*arguments, **keywords)
        elif operation == "attribute":
            value = getattr(target, message["attribute"])
        elif operation == "set":
            value = setattr(target, message["attribute"], *arguments)
        elif operation == "list":
            value = list(target)
        else:
            value = {"length": len, "text": str}[operation](target)
        # what the call did to its arguments
        return {"value": encode(value, handle), "arguments": encode(arguments, handle)}

    while (message := read_line(lines_in)) is not None:
        try:
            reply = run(message)
        except Exception as error:
            reply = {"error": type(error).__name__, "text": str(error)[:500]}
        write_line(lines_out, reply)


def public_names(namespace):
    """(names of callables, names of modules, plain values by name) of the program."""
    kinds = {"calls": [], "modules": {}, "values": {}}
    for name, value in namespace.items():
        if name.startswith("__"):
            continue
        if isinstance(value, type(sys)):
            kinds["modules"][name] = value.__name__
        elif callable(value):
            kinds["calls"].append(name)
        else:
            try:
                kinds["values"][name] = encode(value, _no_handle)
            except Unspeakable:
                continue
    return kinds


def _no_handle(value):
    raise Unspeakable(type(value).__name__)


def main():
    lines_in, lines_out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    end_with_parent()
    request = read_line(lines_in)
    if request is None:
        return
    limit(*request["limits"])
    if not refuse_syscalls() and request["needs_filter"]:
        write_line(lines_out, {"refused": True})
        return
    namespace = {"__name__": "__main__"}
    try:
        exec(compile(request["program"], "answer", "exec"), namespace)
    except BaseException as error:
        write_line(lines_out, {"error": type(error).__name__, "text": str(error)[:500]})
        os._exit(1)
    write_line(lines_out, public_names(namespace))
    serve(lines_in, lines_out, namespace)


if __name__ == "__main__":
    main()
