"""Local servers: programs that are started, spoken to over their pipes, and always ended.

    pipe_transport    messages over the pipes
      message_reader  splits stdout into messages (framing), drops unsolicited answers
                      (request_ids)
      replies         answers requests of the server
    executable        which program is started, with which environment
    reaper            starts it from a separate process (reaper_program), which ends it and all
                      that it started even if this process is killed
      process         drains its stderr, ends it with its group
      pipes           its stdin, stdout and stderr

`executable` is used before a connection exists, so this module imports nothing.
"""
