import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { writeFocusFiles } from '../operator/app/focus-files.ts';
import { ledgerUrl } from '../operator/settings/parsers/ledger-url.ts';
import { problemText } from '../operator/settings/parsers/parser.ts';
import type { LedgerDatabase, LedgerDurability } from '../operator/settings/settings.ts';
import { isLocked } from '../operator/ledger/leveldb/failures.ts';
import { inspectStream, verifyInspected } from '../operator/ledger/postgres/inspect-stream.ts';
import { acceptDamage } from '../operator/ledger/tool/accept-damage.ts';
import { copyToDatabase } from '../operator/ledger/tool/copy-to-database.ts';
import type { CopyProgress } from '../operator/ledger/postgres/stream-copy.ts';
import {
  diffEvents,
  dumpEvents,
  type EventSelection,
  type LedgerPlace,
  sumEvents,
} from '../operator/ledger/tool/events.ts';
import {
  describeCursors,
  describeHead,
  describeSegments,
  describeStreamCursors,
} from '../operator/ledger/tool/inspection.ts';
import { rebuildHead } from '../operator/ledger/tool/rebuild-head.ts';
import { rolesSql } from '../operator/ledger/tool/roles.ts';
import { VERSION } from '../operator/app/process.ts';
import { BILLING_VARIABLES } from '../operator/settings/table/billing.ts';
import { IDENTITY } from '../operator/settings/table/identity.ts';
import { type Anchor, verifyDirectory } from '../operator/ledger/tool/verify.ts';

const USAGE = `usage: npm run ledger -- COMMAND DIR [options]
       npm run ledger -- COMMAND database [--stream CLUSTER_NAME] [options]
       npm run ledger -- migrate DIR --stream CLUSTER_NAME --region REGION [--start-over]
       npm run ledger -- roles [--stream CLUSTER_NAME]... [--hub]

DIR is a copy of a ledger, the ledger of a stopped operator, or one sealed segment.
A directory that an operator has open is refused, and so are hard links. \`database\` is that of
LEDGER_URL or LEDGER_URL_FILE, for cursors, verify, dump, sum, diff and focus; an operator may be writing it.

  segments   the segments and what they hold
  head       IDENTITY and HEAD
  cursors    how far each destination is
  verify     reads and compares everything; exit code 1 when anything is wrong
             [--anchor SEQUENCE:CHAIN] a chain value from status or a log
  dump       events, one line of JSON each
  sum        exact sums by tenant and metric
  accept-damage
             gives up the damaged sealed segment --segment NAME of a stopped operator's ledger:
             its events are lost for good, everything else goes on
  rebuild-head
             writes a new HEAD for a stopped operator's ledger that is intact without it; --anchor, the
             newest value from status or a log, proves that nothing newer is lost
  diff       compares with a destination's export: --export FILE, one JSON object per line
  migrate    copies the ledger of a stopped operator into the database: events with numbers, ids and
             chain, records and cursors. May be ended at any point and run again; --start-over deletes
             what an unfinished copy has left. LEDGER_DURABILITY says what counts as stored
  roles      prints the SQL that an administrator of the database runs once: for each stream, and for a hub,
             a role that owns a schema of its own and has no right in another one

  focus      writes the FOCUS file of a month and its manifest (docs/reference/focus.md):
             --month YYYY-MM --out DIR [--tenant ID] [--grain day] [--format parquet]
             [--focus-version 1.4] [--policy FILE],
             the MeteringPolicy as YAML, for names. DEFAULT_PLAN_CODE and CLUSTER_NAME as the operator has them

dump, sum and diff take [--from SEQUENCE] [--to SEQUENCE] [--tenant ID] [--metric CODE].`;

const OPTIONS = {
  anchor: { type: 'string' },
  'start-over': { type: 'boolean', default: false },
  export: { type: 'string' },
  format: { type: 'string' },
  from: { type: 'string' },
  grain: { type: 'string' },
  'focus-version': { type: 'string' },
  month: { type: 'string' },
  out: { type: 'string' },
  policy: { type: 'string' },
  segment: { type: 'string' },
  stream: { type: 'string', multiple: true },
  hub: { type: 'boolean', default: false },
  to: { type: 'string' },
  tenant: { type: 'string' },
  metric: { type: 'string' },
  region: { type: 'string' },
} as const;

/** Interval between progress reports of a long copy. */
const REPORT_MS = 5_000;

try {
  process.exitCode = await run(process.argv.slice(2));
} catch (error) {
  console.error(
    isLocked(error)
      ? 'ledger: a process has this directory open; stop the operator, or work on a copy'
      : `ledger: ${error instanceof Error ? error.message : String(error)}`,
  );
  process.exitCode = 2;
}

async function run(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true });
  const [command, directory] = positionals;
  if (command === 'roles' && directory === undefined) return roles(values);
  if (command === undefined || directory === undefined || positionals.length > 2) return usage();
  const { tenant, metric } = values;
  const from = parseSequence('--from', values.from);
  const to = parseSequence('--to', values.to);
  const filter: EventSelection = {
    from,
    to,
    tenant,
    metric,
  };
  if (directory === 'database') return runOnDatabase(command, values, filter);
  switch (command) {
    case 'segments':
      return print(describeSegments(directory));
    case 'head':
      return print(describeHead(directory));
    case 'cursors':
      return print(describeCursors(directory));
    case 'dump':
      return print(dumpEvents(directory, filter));
    case 'sum':
      return print(sumEvents(directory, filter));
    case 'diff':
      return values.export === undefined
        ? usage()
        : print(diffEvents(directory, values.export, filter));
    case 'accept-damage':
      return values.segment === undefined ? usage() : accept(directory, values.segment);
    case 'rebuild-head':
      return rebuild(directory, values.anchor);
    case 'verify':
      return verify(directory, values.anchor);
    case 'migrate':
      return migrate(directory, values);
    case 'focus':
      return focus(directory, values);
    default:
      return usage();
  }
}

interface Values {
  readonly anchor?: string;
  readonly 'start-over'?: boolean;
  readonly region?: string;
  readonly export?: string;
  readonly stream?: readonly string[];
  readonly hub?: boolean;
  readonly format?: string;
  readonly grain?: string;
  readonly 'focus-version'?: string;
  readonly month?: string;
  readonly out?: string;
  readonly policy?: string;
  readonly tenant?: string;
}

async function runOnDatabase(
  command: string,
  values: Values,
  filter: EventSelection,
): Promise<number> {
  const inspected = await inspectStream(databaseOfEnvironment(), values.stream?.[0]);
  const { view } = inspected;
  try {
    switch (command) {
      case 'cursors':
        return await print(describeStreamCursors(view));
      case 'dump':
        return await print(dumpEvents(view, filter));
      case 'sum':
        return await print(sumEvents(view, filter));
      case 'diff':
        return values.export === undefined
          ? usage()
          : await print(diffEvents(view, values.export, filter));
      case 'focus':
        return await focus(view, values);
      case 'verify': {
        const report = await verifyInspected(view, parseAnchor(values.anchor));
        console.log(JSON.stringify(report, undefined, 2));
        return report.ok ? 0 : 1;
      }
      default:
        return usage();
    }
  } finally {
    await inspected.close();
  }
}

/** Never from an argument: a list of processes would show the password. */
function databaseOfEnvironment(): LedgerDatabase {
  const { LEDGER_URL: url, LEDGER_URL_FILE: file } = process.env;
  const text = file === undefined ? url : readFileSync(file, 'utf8');
  if (text === undefined) throw new Error('database: set LEDGER_URL or LEDGER_URL_FILE');
  const parsed = ledgerUrl().parse(text.trim());
  if (parsed.kind === 'value') return parsed.value;
  throw new Error(problemText('LEDGER_URL', parsed, '***'));
}

async function verify(directory: string, anchor: string | undefined): Promise<number> {
  const report = await verifyDirectory(directory, parseAnchor(anchor));
  console.log(JSON.stringify(report, undefined, 2));
  return report.ok ? 0 : 1;
}

async function accept(directory: string, segment: string): Promise<number> {
  console.log(JSON.stringify(await acceptDamage(directory, segment), undefined, 2));
  return 0;
}

async function rebuild(directory: string, anchor: string | undefined): Promise<number> {
  const head = await rebuildHead(directory, Date.now(), parseAnchor(anchor));
  console.log(JSON.stringify(head, undefined, 2));
  return 0;
}

async function migrate(
  directory: string,
  { stream: [source] = [], region, 'start-over': startsOver = false }: Values,
): Promise<number> {
  if (source === undefined || region === undefined) return usage();
  const database = databaseOfEnvironment();
  const options = {
    database,
    durability: durabilityOfEnvironment(),
    source,
    region,
    startsOver,
  };
  const report = await copyToDatabase(directory, options, reportNowAndThen());
  console.log(JSON.stringify(report, undefined, 2));
  return 0;
}

/** Prints the paths of the written files, the manifest last. */
async function focus(
  place: LedgerPlace,
  { month: name = '', out, grain = 'hour', format = 'csv', tenant, policy, ...values }: Values,
): Promise<number> {
  const { 'focus-version': focusVersion = '1.2' } = values;
  if (out === undefined || (grain !== 'hour' && grain !== 'day')) return usage();
  if (format !== 'csv' && format !== 'parquet') return usage();
  if (focusVersion !== '1.2' && focusVersion !== '1.4') return usage();
  if (!/^\d{4}-(0[1-9]|1[0-2])$/.test(name)) {
    throw new Error(`--month: not a month such as 2026-11: "${name}"`);
  }
  const from = new Date(`${name}-01`);
  const to = Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + 1);
  const { DEFAULT_PLAN_CODE, CLUSTER_NAME } = process.env;
  const written = await writeFocusFiles({
    place,
    month: { from: from.getTime(), to, grain, focusVersion },
    tenant,
    out,
    format,
    policyFile: policy,
    defaultPlanCode: DEFAULT_PLAN_CODE ?? BILLING_VARIABLES.DEFAULT_PLAN_CODE.default,
    clusterName: CLUSTER_NAME ?? IDENTITY.clusterName.default,
    version: VERSION,
    now: Date.now(),
  });
  for (const path of written) console.log(path);
  return 0;
}

function roles({ stream: streams = [], hub = false }: Values): number {
  if (streams.length === 0 && !hub) return usage();
  process.stdout.write(rolesSql({ streams, hub }));
  return 0;
}

function durabilityOfEnvironment(): LedgerDurability {
  const { LEDGER_DURABILITY: durability = 'standby' } = process.env;
  if (durability === 'standby' || durability === 'storage') return durability;
  throw new Error(`LEDGER_DURABILITY: not one of standby, storage: "${durability}"`);
}

/** Prints a line of progress every few seconds. */
function reportNowAndThen(): (progress: CopyProgress) => void {
  let reportedAt = performance.now();
  return ({ copied, of }) => {
    if (performance.now() - reportedAt < REPORT_MS) return;
    reportedAt = performance.now();
    console.error(`migrate: ${copied} of ${of} events`);
  };
}

async function print(lines: AsyncIterable<string>): Promise<number> {
  for await (const line of lines) {
    if (!process.stdout.write(`${line}\n`)) {
      await new Promise((resolve) => process.stdout.once('drain', resolve));
    }
  }
  return 0;
}

function usage(): number {
  console.error(USAGE);
  return 2;
}

function parseSequence(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new Error(`${name}: not a sequence number: "${text}"`);
}

function parseAnchor(text: string | undefined): Anchor | undefined {
  if (text === undefined) return undefined;
  const [, sequence, chain] = /^(\d{1,15}):([0-9a-f]{64})$/.exec(text) ?? [];
  if (sequence === undefined || chain === undefined) {
    throw new Error(`--anchor: not SEQUENCE:CHAIN: "${text}"`);
  }
  return { sequence: Number(sequence), chain };
}
