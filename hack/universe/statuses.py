"""Lists the statuses of volumes and shares, from the syntax trees of the installed services.

Each line has the name of the service and a status, separated by a tab. The program imports nothing
of OpenStack.
"""

import ast
import pathlib
import sys


def texts(node):
    """Yields all texts in a syntax tree."""
    yield from (n.value for n in ast.walk(node)
                if isinstance(n, ast.Constant) and isinstance(n.value, str))


def cinder(folder):
    """Yields the values of VolumeStatus, and statuses that the code sets without it."""
    for node in ast.parse((folder / 'objects/fields.py').read_text()).body:
        if getattr(node, 'name', '') == 'VolumeStatus':
            for statement in node.body:
                yield from texts(statement)
    for file in 'volume/api.py', 'volume/manager.py':
        for node in ast.walk(ast.parse((folder / file).read_text())):
            name = getattr(getattr(node, 'func', None), 'attr', '')
            if name == 'update_single_status_where' and node.func.value.id == 'volume':
                yield from texts(ast.Tuple(node.args))
            if isinstance(node, ast.FunctionDef) and node.name in ('delete', 'delete_volume'):
                for part in ast.walk(node):
                    target = getattr(part, 'targets', [None])[0]
                    if ast.unparse(target or part) in ("values['status']", 'new_status'):
                        yield from texts(part.value) if target else ()


def manila(folder):
    """Yields the statuses that are not those of share servers and networks only."""
    for node in ast.parse((folder / 'common/constants.py').read_text()).body:
        name = node.targets[0].id if isinstance(node, ast.Assign) else ''
        if name.startswith('STATUS_') and not name.startswith(('STATUS_SERVER_', 'STATUS_NETWORK_')):
            yield from texts(node.value)


def main(packages):
    for name, found in ('Cinder', cinder(packages / 'cinder')), ('Manila', manila(packages / 'manila')):
        for status in sorted(set(found)):
            print(f'{name}\t{status}')


main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else '/usr/lib/python3/dist-packages'))
