"""Runs OpenStack Swift with its S3 interface in one process. Arguments: FOLDER PORT; standard input: the secret."""
import os
import sys
from array import array

import eventlet
eventlet.monkey_patch()

from eventlet import wsgi
from paste.deploy import loadapp
from swift.common.ring import RingData
from swift.common.utils import set_swift_dir

folder, port, secret = sys.argv[1], int(sys.argv[2]), sys.stdin.readline().strip()
log = open(os.devnull, 'w')


def write(name, text):
    path = os.path.join(folder, name)
    with open(path, 'w') as file:
        file.write(text)
    return 'config:' + path


os.makedirs(folder)
write('swift.conf', '[swift-hash]\nswift_hash_path_suffix = landfall\n')
set_swift_dir(folder)

backends = []
for kind in ('account', 'container', 'object'):
    socket = eventlet.listen(('127.0.0.1', 0), backlog=500)
    address = {'ip': '127.0.0.1', 'port': socket.getsockname()[1]}
    device = {'id': 0, 'region': 1, 'zone': 1, 'weight': 1.0, 'device': 'disk', **address,
              **{'replication_' + name: value for name, value in address.items()}}
    os.makedirs(os.path.join(folder, kind, 'disk'))
    RingData([array('H', [0])], [device], 32).save(os.path.join(folder, kind + '.ring.gz'))
    backends.append((socket, write(kind + '.conf', f'''
[DEFAULT]
swift_dir = {folder}
devices = {folder}/{kind}
mount_check = false
disable_fallocate = true
log_level = ERROR
[app:main]
use = egg:swift#{kind}
''')))

proxy = write('proxy.conf', f'''
[DEFAULT]
swift_dir = {folder}
log_level = ERROR
[pipeline:main]
pipeline = catch_errors cache listing_formats s3api tempauth copy slo symlink versioned_writes proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
# Some parts require a cache. No server listens here, which they tolerate.
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:1
[filter:s3api]
use = egg:swift#s3api
min_segment_size = 5242880
# Small, so that short lists have several pages.
max_bucket_listing = 20
[filter:tempauth]
use = egg:swift#tempauth
user_test_owner = {secret} .admin
user_test_guest = {secret}
''' + ''.join(f'[filter:{name}]\nuse = egg:swift#{name}\n' for name in ('catch_errors', 'listing_formats', 'copy', 'slo', 'symlink', 'versioned_writes')))

for socket, conf in backends:
    eventlet.spawn(wsgi.server, socket, loadapp(conf), log, log_output=False, max_size=1000)
wsgi.server(eventlet.listen(('127.0.0.1', port), backlog=500), loadapp(proxy), log, log_output=False, max_size=1000)
