import { spawn } from 'node:child_process';
import { hash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Secret } from '../../operator/model/secret.ts';
import { encodeKey, signatureHeaders } from '../../operator/outbound/aws-signature.ts';
import { freePort } from '../control-plane/ports.ts';
import { preparePython } from '../python/environment.ts';

/** Who may do what; a name has the keys `<name>-key` and `<name>-secret`. */
const IDENTITIES = [
  { name: 'owner', actions: ['Admin', 'Read', 'List', 'Write'] },
  { name: 'writer', actions: ['Write:costs'] },
  { name: 'reader', actions: ['Read', 'List'] },
];
const REQUIREMENTS = join(import.meta.dirname, 'object-store-requirements.txt');
export const REGION = 'eu-1';
/** Longest wait for the server. */
const START_MS = 60_000;

/** SeaweedFS, a store with the API of S3, with an empty bucket `costs`. */
export interface ObjectStore extends AsyncDisposable {
  readonly endpoint: string;
  /** The keys of all objects in the bucket, sorted. */
  list(): Promise<readonly string[]>;
  get(key: string): Promise<Buffer>;
}

export function keysOf(name: string): {
  readonly accessKeyId: Secret;
  readonly secretAccessKey: Secret;
} {
  return {
    accessKeyId: new Secret(`${name}-key`),
    secretAccessKey: new Secret(`${name}-secret`),
  };
}

export async function startObjectStore(): Promise<ObjectStore> {
  const place = await preparePython(REQUIREMENTS);
  const directory = await mkdtemp(join(tmpdir(), 'object-store-'));
  const config = join(directory, 's3.json');
  const identities = IDENTITIES.map(({ name, actions }) => ({
    name,
    credentials: [{ accessKey: `${name}-key`, secretKey: `${name}-secret` }],
    actions,
  }));
  await writeFile(config, JSON.stringify({ identities }));
  const roles = ['master', 'volume', 'filer', 's3'];
  const ports = await Promise.all(
    roles.flatMap((role) =>
      ['port', 'port.grpc'].map(async (kind) => `-${role}.${kind}=${await freePort()}`),
    ),
  );
  const port = ports.find((option) => option.startsWith('-s3.port='))?.split('=')[1] ?? '';
  const server = spawn(
    join(place, 'bin/weed'),
    [
      'server',
      `-dir=${directory}`,
      '-ip=127.0.0.1',
      '-ip.bind=127.0.0.1',
      '-master.volumeSizeLimitMB=64',
      '-volume.max=8',
      '-s3',
      '-s3.port.iceberg=0',
      '-s3.port.lance=0',
      `-s3.config=${config}`,
      ...ports,
    ],
    { stdio: 'ignore' },
  );
  const host = `127.0.0.1:${port}`;
  const endpoint = `http://${host}`;
  const ended = new Promise((resolve) => server.once('exit', resolve));
  const request = (method: string, path: string, query = ''): Promise<Response> => {
    const signed = { method, host, path, sha256: hash('sha256', '', 'hex') };
    const headers = signatureHeaders(signed, { ...keysOf('owner'), region: REGION }, Date.now());
    return fetch(endpoint + path + query, { method, headers });
  };
  const started = Date.now();
  for (;;) {
    const made = await request('PUT', '/costs').catch(() => undefined);
    if (made?.ok === true) break;
    if (Date.now() - started > START_MS) throw new Error(`object store: ${made?.status}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  return {
    endpoint,
    list: async () => {
      const text = await (await request('GET', '/costs')).text();
      return [...text.matchAll(/<Key>([^<]+)<\/Key>/g)].map(([, key = '']) => key).toSorted();
    },
    get: async (key) =>
      Buffer.from(await (await request('GET', `/${encodeKey(`costs/${key}`)}`)).arrayBuffer()),
    [Symbol.asyncDispose]: async () => {
      server.kill('SIGKILL');
      await ended;
      await rm(directory, { recursive: true, force: true });
    },
  };
}
