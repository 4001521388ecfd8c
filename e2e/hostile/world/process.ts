import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Server } from 'node:net';
import { startReceiver } from '../../receiver/receiver.ts';
import type { RawObject } from '../../../operator/kubernetes/source.ts';
import type { Put } from './honest-estate.ts';
import { asClientsSend, ObjectStore, placeOf } from './object-store.ts';
import { serveApi } from './serve-api.ts';
import type { WorldArguments, WorldOrder, WorldPorts } from './world.ts';

/**
 * The trustworthy surroundings of the operator, in a process of their own so that attacks do not slow
 * them down: the host's API server, those of honest tenant clusters, and the receiver of bills.
 */
const given = JSON.parse(process.argv[2] ?? '{}') as WorldArguments;
const stores = new Map([['host', new ObjectStore()]]);
for (const name of given.own) stores.set(name, new ObjectStore());
let written: string[] = [];
let requests = 0;

function storeOf(name: string): ObjectStore {
  const store = stores.get(name);
  if (store === undefined) throw new RangeError(`world: api: none of that name: "${name}"`);
  return store;
}

function store({ api, path }: Put, object: RawObject): void {
  const place = placeOf(path);
  if (place === undefined) throw new RangeError(`world: path: none of an API: "${path}"`);
  storeOf(api).put(place, object);
}

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

const tls = { cert: given.cert, key: given.key };
const host = createServer(tls, (request, response) => {
  void serveApi(
    {
      store: storeOf('host'),
      token: given.hostToken,
      onRequest: () => {
        requests += 1;
      },
      written: (path, body) => {
        if (!path.includes('/leases')) written.push(`${path} ${body}`);
      },
    },
    request,
    response,
  );
});
const own = createServer(tls, (request, response) => {
  const [, name = '', path = '/'] = /^\/([^/]+)(\/.*)$/.exec(request.url ?? '') ?? [];
  const store = stores.get(name);
  if (store === undefined || name === 'host') {
    response.writeHead(404).end();
    return;
  }
  void serveApi({ store, token: given.ownTokens[name] ?? '' }, request, response, path);
});
const receiver = await startReceiver({
  file: given.received,
  secret: given.webhookSecret,
  port: 0,
});

process.on('message', (order: WorldOrder) => {
  for (const put of order.puts ?? []) store(put, put.object);
  for (const put of order.fromClients ?? []) store(put, asClientsSend(put.object));
  for (const path of order.deletions ?? []) {
    const place = placeOf(path);
    if (place !== undefined) storeOf('host').delete(place);
  }
  for (const namespace of order.namespaces ?? []) storeOf('host').deleteNamespace(namespace);
  process.send?.({ id: order.id, written, requests });
  written = [];
});
process.on('disconnect', () => process.exit());

const ports: WorldPorts = {
  host: await listen(host),
  own: await listen(own),
  receiver: receiver.url,
};
process.send?.({ id: 0, ports });
