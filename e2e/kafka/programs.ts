import { execFile } from 'node:child_process';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

const CACHE = resolve(import.meta.dirname, '../../.cache/kafka');
const POM = join(import.meta.dirname, 'pom.xml');
const FETCH_MS = 10 * 60_000;

export type KafkaPrograms =
  | { readonly kind: 'found'; readonly classpath: string }
  /** There is no Java or no Maven here, or Maven reaches no repository. */
  | { readonly kind: 'missing'; readonly reason: string };

/** The Java classes of Apache Kafka, fetched by Maven once and kept. */
export async function findKafka(): Promise<KafkaPrograms> {
  const classes = join(CACHE, 'lib');
  try {
    await promisify(execFile)('java', ['-version']);
    if ((await readdir(classes).catch(() => [])).length === 0) await fetchTo(classes);
    return { kind: 'found', classpath: join(classes, '*') };
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n', 3).join(' ') : String(error);
    return { kind: 'missing', reason: `kafka: ${reason}` };
  }
}

async function fetchTo(directory: string): Promise<void> {
  const staging = join(CACHE, `.staging-${process.pid}`);
  await mkdir(CACHE, { recursive: true });
  try {
    const goal = 'dependency:copy-dependencies';
    const args = ['-q', '-B', '-f', POM, goal, `-DoutputDirectory=${staging}`];
    await promisify(execFile)('mvn', args, { timeout: FETCH_MS });
    await rm(directory, { recursive: true, force: true });
    await rename(staging, directory);
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}
