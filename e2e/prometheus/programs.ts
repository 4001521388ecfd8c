import { access, constants } from 'node:fs/promises';
import { delimiter, join } from 'node:path';

/** The programs of Prometheus: the server, and its tool for blocks and rules. */
export interface PrometheusPrograms {
  readonly prometheus: string;
  readonly promtool: string;
}

const INSTALL =
  'install it (Debian, Ubuntu: apt-get install prometheus; elsewhere: put prometheus and promtool of a release of github.com/prometheus/prometheus on the PATH)';

/** Where the programs are, or undefined when they are not installed. */
export async function findPrometheus(
  path = process.env['PATH'] ?? '',
): Promise<PrometheusPrograms | undefined> {
  const prometheus = await find('prometheus', path);
  const promtool = await find('promtool', path);
  if (prometheus === undefined || promtool === undefined) return undefined;
  return { prometheus, promtool };
}

/** As {@link findPrometheus}; rejects with how to install them when they are not there. */
export async function requirePrometheus(path?: string): Promise<PrometheusPrograms> {
  const programs = await findPrometheus(path);
  if (programs === undefined)
    throw new Error(`prometheus or promtool: not on the PATH: ${INSTALL}`);
  return programs;
}

async function find(name: string, path: string): Promise<string | undefined> {
  for (const directory of path.split(delimiter).filter((each) => each !== '')) {
    const file = join(directory, name);
    const executable = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (executable) return file;
  }
  return undefined;
}
