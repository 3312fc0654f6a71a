"""Lists the errors that services of OpenStack give to a tenant in the operations of the drivers.

Each line has the service, the HTTP status, the kind of the body, and the message in Python's format,
separated by tabs. The messages come from the syntax trees of the installed packages: from raised
exceptions of the service, from errors of webob in the handlers of requests, and from the details of
Manila's user messages, which have the status "-". The program imports nothing of OpenStack.
"""

import ast
import itertools
import pathlib
import re
import sys

# The functions that the operations of the drivers run, for each file below a service.
FUNCTIONS = {
    'cinder': {
        'api/v[23]/volumes.py': 'create|show|delete|detail|_get_volumes|_get_image_snapshot',
        'api/v[23]/snapshots.py': '[a-z].*', 'api/v3/attachments.py': '[a-z].*',
        'api/contrib/volume_actions.py': '_extend|_begin_detaching|_reserve',
        'api/(contrib|v3)/backups.py': 'show|create|delete', 'api/validation/validators.py': '.*',
        'backup/api.py': 'get|create|delete|_is_backup_service_enabled|_get_available_.*',
        'volume/api.py': 'create|delete|get|get_volume|get_snapshot|.*(at|de)tach.*|_?extend'
                         '|_?create_snapshot.*|delete_snapshot|reserve_volume|check_volume_filters',
        'volume/flows/api/create_volume.py': '.*', 'quota_utils.py': 'process_reserve_over_quota',
        'volume/volume_utils.py': 'check_encryption_provider',
        'volume/volume_types.py': 'get_(default_|by_name|volume_type).*', 'policy.py': 'authorize',
        'db/sqlalchemy/api.py': '_?(volume|snapshot|backup|volume_type|volume_attachment|attachment)'
                                '_get(_by_name|_db|_full)?|attachment_destroy',
    },
    'manila': {
        'api/v1/shares.py': 'show|delete|_get_shares|_?create|_(allow|deny)_access|.*_?extend.*',
        'api/v2/shares.py': 'create|(allow|deny)_access.*|extend|_validate_metadata.*',
        'api/v[12]/share_snapshots.py': 'show|delete|detail|_get_snapshots|create',
        'api/v2/share_(accesses|export_locations|types|networks).py': '_?show|_?index|_.*verify.*',
        'api/common.py': 'validate_.*|check_.*|get_.*|_validate.*',
        'api/v1/limits.py': '.*', 'policy.py': '.*',
        'share/api.py': 'create|create_instance|create_share_instance_and_get_request_spec|delete'
                        '|delete_instance|create_snapshot|delete_snapshot|get|get_snapshot|extend'
                        '|(allow|deny)_access.*|_check_.*|.*scheduler_hints|get_share_attributes.*',
        'share/share_types.py': 'get_.*|provision_filter_on_size|.*required.*|parse_boolean.*',
        'db/sqlalchemy/api.py': '_?(share|share_snapshot|share_network|share_type|share_access'
                                '|share_export_location|availability_zone)_get(_by_name)?|share_access_.*',
    },
    'nova': {
        'api/openstack/compute/volumes.py': 'index|show|create|delete',
        'api/openstack/compute/servers.py': 'show|_get_server|_get_instance',
        'api/openstack/common.py': 'raise_http_conflict.*|get_instance',
        'api/validation/validators.py': '.*', 'policy.py': 'authorize',
        'compute/api.py': 'check_instance_(state|lock)|reject_instance_state|inner|inner2|_wrapped'
                          '|_check_.*volume.*|.*(at|de)tach.*volume.*|.*volume_bdm',
        'objects/block_device.py': 'get_by_volume.*|_check.*', 'api/openstack/wsgi.py': 'wrapped',
        'volume/cinder.py': 'wrapper|check_.*|attachment_.*|cinderclient',
        'compute/manager.py': 'reserve_block_device_name|_?attach_volume|do_reserve',
    },
    'keystone': {
        'auth/core.py': '.*', 'auth/plugins/(core|password|token|application_credential).py': '.*',
        'api/_shared/authentication.py': '.*', 'identity/core.py': 'assert_.*|authenticate',
        'identity/backends/sql.py': 'authenticate', 'resource/core.py': 'assert_.*_enabled',
        'token/provider.py': 'validate_token|check_.*|_.*valid.*',
        'common/validation/validators.py': '.*', 'models/token_model.py': '_?validate.*|mint',
    },
}
# kinds are the names of errors in bodies of Cinder, Manila and Nova; Keystone has "error".
KINDS = {400: 'badRequest', 401: 'unauthorized', 403: 'forbidden', 404: 'itemNotFound',
         405: 'badMethod', 409: 'conflictingRequest', 413: 'overLimit', 415: 'badMediaType',
         429: 'overLimit', 501: 'notImplemented', 503: 'serviceUnavailable'}
HTTP = {'BadRequest': 400, 'Unauthorized': 401, 'Forbidden': 403, 'NotFound': 404, 'Conflict': 409,
        'MethodNotAllowed': 405, 'NotAcceptable': 406, 'RequestEntityTooLarge': 413,
        'UnsupportedMediaType': 415, 'UnprocessableEntity': 422, 'TooManyRequests': 429,
        'InternalServerError': 500, 'NotImplemented': 501, 'ServiceUnavailable': 503}


def name_of(node):
    """Returns the last part of a name, such as HTTPConflict of exc.HTTPConflict."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, 'id', None)


def texts(node, assigned):
    """Returns the texts that an expression may be, in Python's format; none if it is computed."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [a + b for a, b in itertools.product(
            texts(node.left, assigned) or ['%s'], texts(node.right, assigned) or ['%s'])]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return texts(node.left, assigned)
    if isinstance(node, ast.JoinedStr):
        return [''.join(v.value if isinstance(v, ast.Constant) else '%s' for v in node.values)]
    if isinstance(node, ast.IfExp):
        return texts(node.body, assigned) + texts(node.orelse, assigned)
    if isinstance(node, ast.Name):
        return assigned.get(node.id, [])
    if isinstance(node, ast.Call):
        name = name_of(node.func)
        if name == 'format':
            return [re.sub(r'\{(\w*)\}', '%s', t) for t in texts(node.func.value, assigned)]
        if name in ('_', 'str', 'six.text_type') and node.args:
            return texts(node.args[0], assigned)
    return []


class Service:
    """The errors of one service."""

    def __init__(self, name, folder):
        self.name, self.folder, self.classes, self.mapped, self.found = name, folder, {}, {}, set()
        for node in ast.parse((folder / 'exception.py').read_text()).body:
            if isinstance(node, ast.ClassDef):
                self.classes[node.name] = node

    def attribute(self, name, *attributes):
        """Returns the value of an attribute of an exception class or its bases."""
        node = self.classes.get(name)
        if node is None:
            return None
        for statement in node.body:
            if isinstance(statement, ast.Assign) and name_of(statement.targets[0]) in attributes:
                return statement.value
        for base in node.bases:
            if (value := self.attribute(name_of(base), *attributes)) is not None:
                return value
        return None

    def status(self, name):
        """Returns the HTTP status with which a handler answers an exception, else its own code."""
        for parent in itertools.chain([name], map(name_of, getattr(
                self.classes.get(name), 'bases', []))):
            if parent in self.mapped:
                return self.mapped[parent]
        code = self.attribute(name, 'code')
        if isinstance(code, ast.Call):  # Keystone: int(http.client.UNAUTHORIZED)
            code = code.args[0]
        if isinstance(code, ast.Constant):
            return code.value
        words = (name_of(code) or 'INTERNAL_SERVER_ERROR').title().replace('_', '')
        return HTTP.get(words.replace('Http', ''), 500)

    def formats(self, name, call, assigned):
        """Returns the messages of an exception class, with the literals of a call in them."""
        own = texts(self.attribute(name, 'message', 'msg_fmt', 'message_format')
                    or ast.Constant('%(detail)s'), {})
        arguments = call.args if call else []
        keywords = {k.arg: texts(k.value, assigned) for k in call.keywords} if call else {}
        if arguments or 'message' in keywords:
            said = texts(arguments[0], assigned) if arguments else keywords['message']
            return said or own
        for key, values in keywords.items():
            if values:
                own = [t.replace(f'%({key})s', v) for t in own for v in values]
        return own

    def add(self, status, messages):
        kind = 'error' if self.name == 'keystone' else KINDS.get(status, 'computeFault')
        for message in messages:
            message = re.sub(r'\s+', ' ', message).strip()
            if re.sub(r'%(\(\w+\))?[a-z]|\W', '', message):  # not all of it is computed
                self.found.add((self.name, str(status), kind, message))

    def handle(self, handler, http):
        """Notes which status a handler gives to the exceptions that it catches."""
        caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        for name in filter(None, map(name_of, caught)):
            if name in self.classes:
                self.mapped[name] = http
                self.add(http, self.formats(name, None, {}))

    def visit(self, node, assigned, handler, mapping):
        """Walks the statements of a function in their order."""
        if isinstance(node, ast.Assign) and (name := name_of(node.targets[0])):
            if values := texts(node.value, assigned):
                assigned[name] = values
        if isinstance(node, ast.ExceptHandler):
            handler = node
        call = node.exc if isinstance(node, ast.Raise) else None
        name = name_of(call.func if isinstance(call, ast.Call) else call)
        if name in self.classes and not mapping:
            self.add(self.status(name),
                     self.formats(name, call if isinstance(call, ast.Call) else None, assigned))
        http = HTTP.get((name or '').removeprefix('HTTP'))
        if (name or '').startswith('HTTP') and http:
            said = [t for k in getattr(call, 'keywords', []) if k.arg == 'explanation'
                    for t in texts(k.value, assigned)]
            if said and not mapping:
                self.add(http, said)
            elif not said and handler is not None and handler.type is not None:
                self.handle(handler, http)
        if isinstance(node, ast.If):  # a text is that of one of the branches, unless it leaves
            branches = [dict(assigned), dict(assigned)]
            for branch, known in zip((node.body, node.orelse), branches):
                for child in branch:
                    self.visit(child, known, handler, mapping)
                if branch and isinstance(branch[-1], (ast.Raise, ast.Return)):
                    known.clear()
            for name in branches[0].keys() | branches[1].keys():
                assigned[name] = list(dict.fromkeys(
                    branches[0].get(name, []) + branches[1].get(name, [])))
            return
        for child in ast.iter_child_nodes(node):
            self.visit(child, assigned, handler, mapping)

    def files(self):
        """Yields the files with the functions to read in them."""
        for path in sorted(self.folder.rglob('*.py')):
            for file, functions in FUNCTIONS[self.name].items():
                if re.fullmatch(file, str(path.relative_to(self.folder))):
                    yield path, functions

    def read(self):
        """Reads the selected functions: first what handlers do with exceptions, then what is raised."""
        for mapping in True, False:
            for path, functions in self.files():
                for node in ast.walk(ast.parse(path.read_text())):
                    if isinstance(node, ast.Dict):  # OVER_QUOTA_RESOURCE_EXCEPTIONS of Cinder
                        for name in filter(self.classes.get, map(name_of, node.values)):
                            self.add(self.status(name), self.formats(name, None, {}))
                    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and \
                            re.fullmatch(functions, node.name):
                        self.visit(node, {}, None, mapping)


def details(folder):
    """Returns the details of Manila's user messages."""
    tree = ast.parse((folder / 'message/message_field.py').read_text())
    detail = next(n for n in tree.body if getattr(n, 'name', '') == 'Detail')
    assigned = {}
    for statement in detail.body:
        if isinstance(statement.value, ast.Tuple):
            value = statement.value.elts[1]
            filled = value.right.value if isinstance(value, ast.BinOp) else ''
            yield from (t.replace('%s', filled) for t in texts(value, assigned))
        assigned[name_of(statement.targets[0])] = texts(statement.value, assigned)


def main(packages):
    found = set()
    for name in sorted(FUNCTIONS):
        service = Service(name, packages / name)
        service.read()
        found |= service.found
    for text in details(packages / 'manila'):
        found.add(('manila', '-', 'message', text))
    for entry in sorted(found):
        print('\t'.join(entry))


main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else '/usr/lib/python3/dist-packages'))
