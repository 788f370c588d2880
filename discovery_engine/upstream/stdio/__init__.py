"""Local servers: programs that are started, spoken to over their pipes, and always ended.

    pipe_transport    messages over the pipes, and the answers to requests of the server
      pipes           its stdin and stdout; splits stdout into messages, drops unsolicited answers
    environment       the variables that a program inherits
    executable        which program is started
    reaper            starts it from a separate process (reaper_program), which ends it and all
                      that it started even if this process is killed
      process         drains its stderr, ends it with its group

`executable` is used before a connection exists, so this module imports nothing.
"""
