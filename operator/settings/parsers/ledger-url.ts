import { Secret } from '../../model/secret.ts';
import { invalid, type Parsed, type Parser, valid } from './parser.ts';
import { decode } from './urls.ts';

const FORM = 'postgresql://user:password@host:5432/database';
const FIX = `write it as in ${FORM}`;
const TLS_MODES = ['disable', 'require', 'verify-full'] as const;
const DEFAULT_PORT = 5432;

/** A PostgreSQL database with the ledger. */
export interface LedgerDatabase {
  readonly host: string;
  readonly port: number;
  readonly name: string;
  readonly user: string;
  readonly password?: Secret;
  readonly tls: {
    /** `require` encrypts without verifying the server. */
    readonly mode: 'disable' | 'require' | 'verify-full';
    /** File with trusted certificates, PEM. Absent: those of Node. */
    readonly caFile?: string;
  };
}

/**
 * The URL of a PostgreSQL database. `sslmode` defaults to `verify-full`; `sslrootcert` is the path
 * of the trusted certificates. Problems never quote the URL: it may contain a password.
 */
export function ledgerUrl(): Parser<LedgerDatabase> {
  return {
    accepts: `\`${FORM}\` with \`?sslmode=verify-full\` (default), \`require\` or \`disable\` and \`sslrootcert=/path\``,
    parse(text) {
      if (!/^postgres(ql)?:\/\//.test(text) || /\s/.test(text)) {
        return invalid('not a PostgreSQL URL', FIX);
      }
      if (/^[^/]*\/\/([^/?]*@)?[^/?@]*,/.test(text)) {
        return invalid('more than one host', 'name one that always leads to the primary');
      }
      return URL.canParse(text) ? read(new URL(text)) : invalid('not a PostgreSQL URL', FIX);
    },
  };
}

/** The separator before another URL. */
const NEXT = /[\s,]+(?=postgres(?:ql)?:\/\/)/;

/** One or more of {@link ledgerUrl}, separated by commas or lines, without repeats. */
export function ledgerUrls(): Parser<readonly [LedgerDatabase, ...LedgerDatabase[]]> {
  const one = ledgerUrl();
  return {
    accepts: `${one.accepts}; list for a hub`,
    parse(text) {
      const [first = '', ...others] = text.trim().split(NEXT);
      const parsed = one.parse(first);
      if (parsed.kind === 'problem') return parsed;
      const databases: [LedgerDatabase, ...LedgerDatabase[]] = [parsed.value];
      for (const url of others) {
        const further = one.parse(url);
        if (further.kind === 'problem') return further;
        if (databases.some((known) => isSame(known, further.value))) {
          return invalid('one database twice', 'leave one of the two out');
        }
        databases.push(further.value);
      }
      return valid(databases);
    },
  };
}

function isSame(a: LedgerDatabase, b: LedgerDatabase): boolean {
  return a.host === b.host && a.port === b.port && a.name === b.name;
}

function read(url: URL): Parsed<LedgerDatabase> {
  const { hostname, port, hash, searchParams } = url;
  const user = decode(url.username);
  const password = decode(url.password);
  const name = decode(url.pathname.slice(1));
  if (user === undefined || password === undefined || name === undefined) {
    return invalid('a part that is not percent-encoded correctly', 'write % as %25');
  }
  if (hostname === '') return invalid('no host', FIX);
  if (user === '') return invalid('no user', FIX);
  if (name === '' || name.includes('/')) return invalid('no name of one database', FIX);
  if (hash !== '') return invalid('a part after #', 'write # as %23');
  const unknown = [...searchParams.keys()].find(
    (key) => key !== 'sslmode' && key !== 'sslrootcert',
  );
  if (unknown !== undefined) {
    return invalid('an unknown parameter', 'sslmode and sslrootcert are all there are');
  }
  const word = searchParams.get('sslmode') ?? 'verify-full';
  const mode = TLS_MODES.find((known) => known === word);
  if (mode === undefined) return invalid('an unknown sslmode', `write ${TLS_MODES.join(', ')}`);
  const caFile = searchParams.get('sslrootcert') ?? undefined;
  if (caFile !== undefined && !caFile.startsWith('/')) {
    return invalid('sslrootcert is no absolute path', 'begin it with /');
  }
  return valid({
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port: port === '' ? DEFAULT_PORT : Number(port),
    name,
    user,
    ...(password !== '' && { password: new Secret(password) }),
    tls: { mode, caFile },
  });
}
