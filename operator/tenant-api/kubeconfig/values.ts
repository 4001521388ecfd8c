import { least } from '../../model/extremes.ts';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { isRecord } from '../../model/is-record.ts';
import { parseJson } from '../../model/parse-json.ts';
import { Secret } from '../../model/secret.ts';
import type { YamlMap } from '../../settings/strict-yaml.ts';

/** Content of an accepted foreign kubeconfig: an address and a credential, as values. */
export interface ForeignKubeconfig {
  /** https, without credentials, query or fragment. */
  readonly server: URL;
  /** PEM; absent means the authorities of the system. */
  readonly certificateAuthority?: string;
  readonly tlsServerName?: string;
  readonly token?: Secret;
  readonly client?: {
    /** PEM. */
    readonly certificate: string;
    /** PEM. */
    readonly key: Secret;
  };
  /** Earliest end of its credentials, milliseconds since the epoch. */
  readonly validUntil?: number;
}

const CLUSTER = 'clusters[0].cluster';
const USER = 'users[0].user';
const DNS_NAME = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/i;

/** Reads the server's address and certificate authority. Adds problems to the list. */
export function readCluster(
  cluster: YamlMap,
  problems: string[],
): Pick<ForeignKubeconfig, 'server' | 'certificateAuthority' | 'tlsServerName'> | undefined {
  const server = readServer(cluster, problems);
  const tlsServerName = textOf(cluster, 'tls-server-name');
  if (tlsServerName !== undefined && !DNS_NAME.test(tlsServerName)) {
    problems.push(`${CLUSTER}.tls-server-name: not a DNS name`);
  }
  const authority = readCertificates(cluster, 'certificate-authority-data', CLUSTER, problems);
  if (server === undefined) return undefined;
  return { server, certificateAuthority: authority?.pem, tlsServerName };
}

function readServer(cluster: YamlMap, problems: string[]): URL | undefined {
  const text = textOf(cluster, 'server');
  const where = `${CLUSTER}.server`;
  if (text === undefined) {
    problems.push(`${where}: missing`);
    return undefined;
  }
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'https:') {
    problems.push(`${where}: not an https address`);
    return undefined;
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    problems.push(`${where}: more than a host, a port and a path`);
    return undefined;
  }
  return url;
}

/** Reads the credential. Adds problems to the list. */
export function readUser(
  user: YamlMap,
  problems: string[],
): Pick<ForeignKubeconfig, 'token' | 'client' | 'validUntil'> {
  const token = textOf(user, 'token');
  if (token !== undefined && !/^[!-~]+$/.test(token)) {
    problems.push(`${USER}.token: not printable ASCII on one line`);
  }
  const certificate = readCertificates(user, 'client-certificate-data', USER, problems);
  const key = readKey(user, problems);
  if ((certificate === undefined) !== (key === undefined)) {
    problems.push(`${USER}: client-certificate-data and client-key-data belong together`);
  }
  if (token === undefined && certificate === undefined && key === undefined) {
    problems.push(`${USER}: no credential; give a token or a client certificate`);
  }
  const ends = [
    readEnd(certificate?.validUntil, 'client-certificate-data', problems),
    readEnd(tokenEnd(token ?? ''), 'token', problems),
  ].filter((end) => end !== undefined);
  return {
    token: token === undefined ? undefined : new Secret(token),
    client: certificate && key && { certificate: certificate.pem, key },
    validUntil: ends.length === 0 ? undefined : least(ends),
  };
}

/**
 * Returns the end of a credential, milliseconds since the epoch. An end outside the calendar is a
 * problem.
 */
function readEnd(end: number | undefined, field: string, problems: string[]): number | undefined {
  if (end === undefined || !Number.isNaN(new Date(end).getTime())) return end;
  problems.push(`${USER}.${field}: its end is no date; renew it`);
  return undefined;
}

/**
 * Returns the end of a service account's token from its payload, milliseconds since the epoch. It
 * may be any number, also one that is no date.
 */
function tokenEnd(token: string): number | undefined {
  const [, payload, signature] = token.split('.');
  if (payload === undefined || signature === undefined) return undefined;
  const claims = parseJson(Buffer.from(payload, 'base64url').toString('utf8'));
  const end = isRecord(claims) ? claims['exp'] : undefined;
  return typeof end === 'number' ? Math.floor(end * 1000) : undefined;
}

function readCertificates(
  parent: YamlMap,
  field: string,
  where: string,
  problems: string[],
):
  | {
      readonly pem: string;
      /** Earliest end of the certificates, ms since the epoch; NaN without a valid date. */
      readonly validUntil: number;
    }
  | undefined {
  const pem = decode(parent, field);
  if (pem === undefined) return undefined;
  try {
    const certificates = pem.match(/-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g);
    const ends = (certificates ?? []).map((one) => Date.parse(new X509Certificate(one).validTo));
    const [first] = ends;
    if (first !== undefined) return { pem, validUntil: first };
  } catch {
    // Reported below.
  }
  problems.push(`${where}.${field}: not base64 of PEM certificates`);
  return undefined;
}

function readKey(user: YamlMap, problems: string[]): Secret | undefined {
  const pem = decode(user, 'client-key-data');
  if (pem === undefined) return undefined;
  try {
    createPrivateKey(pem);
    return new Secret(pem);
  } catch {
    problems.push(`${USER}.client-key-data: not base64 of a PEM key without a passphrase`);
    return undefined;
  }
}

function decode(parent: YamlMap, field: string): string | undefined {
  const text = textOf(parent, field);
  return text === undefined ? undefined : Buffer.from(text, 'base64').toString('latin1');
}

/** The text of a field; undefined when it is absent or empty. */
export function textOf(node: YamlMap, field: string): string | undefined {
  const value = node.entries.get(field);
  return value?.kind === 'text' && value.text !== '' ? value.text : undefined;
}
