"""Serves the API of one OpenStack service, one request at a time, on an inherited socket.

Usage: serve.py SERVICE CONFIG. SERVICE is keystone, manila, cinder or nova. The socket, which
listens already, is file descriptor 3.
"""
import importlib
import os
import socket
import sys
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

APPLICATIONS = {
    "keystone": "keystone.server.wsgi:initialize_public_application",
    "manila": "manila.wsgi.wsgi:initialize_application",
    "cinder": "cinder.wsgi.wsgi:initialize_application",
    "nova": "nova.api.openstack.compute.wsgi:init_application",
}


def load(service, config):
    """Returns the WSGI application. Each service reads its configuration in its own way."""
    os.environ["OS_KEYSTONE_CONFIG_FILES"] = config
    os.environ["OS_NOVA_CONFIG_DIR"] = os.path.dirname(config)
    sys.argv = [service]
    if service in ("manila", "cinder"):
        sys.argv += ["--config-file", config]
    module, factory = APPLICATIONS[service].split(":")
    return getattr(importlib.import_module(module), factory)()


def main():
    application = load(*sys.argv[1:])
    inherited = socket.socket(fileno=3)
    server = WSGIServer(inherited.getsockname(), WSGIRequestHandler, bind_and_activate=False)
    server.socket.close()
    server.socket = inherited
    server.server_name, server.server_port = inherited.getsockname()
    server.setup_environ()
    server.set_app(application)
    server.serve_forever()


main()
