import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { createRandom } from '../../faults/random.ts';
import { foundIn } from '../observer/secrets.ts';
import type { Attack, RunPlan } from './attack.ts';
import { startHostileBroker } from './brokers.ts';
import { CREDIT_ATTACKS } from './credits.ts';
import { FRAMING_ATTACKS } from './framing.ts';
import type { PartyArguments, PartyOrder } from './hostile-party.ts';
import { PEER_ATTACKS } from './peers.ts';
import { SCOPED_TOKEN_ATTACKS } from './scoped-tokens.ts';
import { HostileApi } from './tenant-api.ts';
import { TOKEN_ATTACKS } from './tenant-tokens.ts';
import { startVendorGates } from './vendor-proxies.ts';
import { WEBHOOK_ATTACKS } from './webhooks.ts';

/** Everybody who wishes the operator ill: orders come from the suite, one after the other. */
const given = JSON.parse(process.argv[2] ?? '{}') as PartyArguments;
const apis = new Map<number, HostileApi>();
const ends = new Map<number, (() => void)[]>();
const leaks = new Set<string>();
const misbilled = new Set<string>();
/** Over all runs, as the ledger keeps them. */
const credited = new Map<string, string>();
let target = { port: 0, probePort: 0 };
let requested = 0;
let answers = 0;

/** What peers do. */
const STRANGERS = [...PEER_ATTACKS, ...FRAMING_ATTACKS, ...SCOPED_TOKEN_ATTACKS];
/** Texts that whoever is sent them has given himself. */
const OWN_OF_STRANGERS = ['hostileIngestToken', 'rivalIngestToken'];

function poll(where: string, text: string, own: readonly string[], withPrivate: boolean): void {
  const needles = withPrivate ? [...given.needles, ...given.private] : given.needles;
  for (const name of foundIn(text, needles)) {
    if (own.some((each) => name.startsWith(each))) continue;
    const at = text.indexOf(needles.find((needle) => needle.name === name)?.text ?? '');
    const around = text.slice(Math.max(0, at - 80), at).replaceAll(/[\r\n]+/g, ' ');
    leaks.add(`${name} in ${where}: …${around}…`);
  }
}

const server = createServer({ cert: given.cert, key: given.key }, (request, response) => {
  requested += 1;
  const [, run = '', path = '/'] = /^\/(\d+)(\/.*)$/.exec(request.url ?? '') ?? [];
  const head = `${request.url} ${JSON.stringify(request.rawHeaders)}`;
  poll(`a request to the API of run ${run}`, head, [], true);
  const api = apis.get(Number(run));
  if (api === undefined) response.writeHead(503).end();
  else api.handle(request, response, path);
});
server.on('tlsClientError', () => undefined);
server.on('clientError', (_error, socket) => socket.destroy());
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const vendors = await startVendorGates(given.vendorKeys, (vendor, text) =>
  poll(`a request to ${vendor}`, text, [`vendorKeys.${vendor}`], false),
);

const broker = await startHostileBroker(given.brokerPassword);

function begin({ run, attacks }: RunPlan): void {
  const stop = new AbortController();
  const of = (kind: Attack['kind']): readonly Attack[] =>
    attacks.filter((attack) => attack.kind === kind);
  const api = new HostileApi(run, of('tenant-api'));
  apis.set(run, api);
  const means = {
    ...target,
    ingestToken: given.ingestToken,
    rivalIngestToken: given.rivalIngestToken,
    secrets: given.webhookSecrets,
    ...given.tenant,
    credited,
    leaked: (what: string): void => void leaks.add(what),
    misbilled: (what: string): void => void misbilled.add(what),
    signal: stop.signal,
    answered: (text: string): void => {
      answers += 1;
      poll(`an answer to a stranger of run ${run}`, text, OWN_OF_STRANGERS, true);
    },
  };
  for (const { name, seed } of of('peer')) {
    const attack = STRANGERS.find((each) => each.name === name);
    void attack?.make(createRandom(seed))(means);
  }
  for (const { name, seed } of of('webhook')) {
    const attack = WEBHOOK_ATTACKS.find((each) => each.name === name);
    void attack?.make(createRandom(seed))(means);
  }
  for (const { name, seed } of [...of('token'), ...of('credit')]) {
    const attack = [...TOKEN_ATTACKS, ...CREDIT_ATTACKS].find((each) => each.name === name);
    void attack?.make(createRandom(seed))(means);
  }
  const bent = of('vendor').map((attack) => vendors.begin(attack));
  bent.push(...of('broker').map((attack) => broker.begin(attack)));
  ends.set(run, [() => stop.abort(), () => api.close(), ...bent]);
}

function end(run: number): void {
  for (const stop of ends.get(run) ?? []) stop();
  ends.delete(run);
  apis.delete(run);
}

process.on('message', (order: PartyOrder) => {
  target = order.target ?? target;
  for (const plan of order.begin ?? []) begin(plan);
  for (const run of order.end ?? []) end(run);
  process.send?.({
    id: order.id,
    leaks: [...leaks],
    misbilled: [...misbilled],
    requests: requested,
    answers,
  });
  leaks.clear();
  misbilled.clear();
});
process.on('disconnect', () => process.exit());
// A socket that the other side has cut is no reason to end.
process.on('uncaughtException', (error) => console.error(`hostile party: ${error.message}`));
process.send?.({
  id: 0,
  apiPort: (server.address() as AddressInfo).port,
  vendorUrls: vendors.urls,
  broker: `${broker.address.host}:${broker.address.port}`,
});
