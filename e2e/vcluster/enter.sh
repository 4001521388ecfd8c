#!/bin/sh
# Runs a vCluster below the directory $1, which has a data directory of its own. Called within new mount, PID and network
# namespaces: nothing that is mounted here is seen outside, and the fixed ports are free.
set -eu
root=$1

ip link set lo up
for each in bin lib lib64 usr etc dev; do
  [ -e "/$each" ] || continue
  mkdir -p "$root/$each"
  mount --rbind "/$each" "$root/$each"
done
mkdir -p "$root/proc" "$root/binaries"
mount -t proc proc "$root/proc"
for program in "$VCLUSTER" "$ETCD" "$KUBE_APISERVER" "$KUBE_CONTROLLER_MANAGER"; do
  inside="$root/binaries/$(basename "$program")"
  touch "$inside"
  mount --bind "$program" "$inside"
done

# What it calls its embedded database is a program that speaks etcd's protocol on a socket: etcd, with a tunnel to it.
cat > "$root/binaries/kine" <<'KINE'
#!/bin/sh
exec /binaries/etcd --data-dir /data/etcd --log-level error --unsafe-no-fsync
KINE
chmod 755 "$root/binaries/kine"

rm -f "$root/data/kine.sock"
"$NODE" "$TUNNEL" "$HOST_PORT" "$HOST_SOCKET" "$TENANT_SOCKET" 8443 "$root/data/kine.sock" 2379 &
until [ -S "$root/data/kine.sock" ]; do
  kill -0 "$!"
  sleep 0.1
done
exec chroot "$root" /binaries/vcluster start --config /config.yaml
