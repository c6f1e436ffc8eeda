"""aiofastnet: its transports and its TLS, on uvloop's loop."""

import aiofastnet
import uvloop

new_event_loop = aiofastnet.loop_factory(uvloop.new_event_loop)
