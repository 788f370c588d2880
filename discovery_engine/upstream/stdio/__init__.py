"""Servers that are programs of ours: started, spoken to over their pipes, and always ended.

    link            messages over the pipes
      reading       cuts them out of what a program writes (framing), and drops what answers
                    nothing that we asked (ids)
      replies       answers what it asks of us
    program         what is started, and with which environment
    reaper          starts it from a process of its own (reaper_program), which ends it with all
                    that it started even if we are killed
      process       drains it, ends it with its group
      pipes         its stdin, stdout and stderr

`program` is asked before anybody connects, so this face loads nothing.
"""
