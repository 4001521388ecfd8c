import { readFile } from 'node:fs/promises';

const DOCKERFILE = new URL('../../Dockerfile', import.meta.url);

/** The options of Node that the image starts the operator with; `places` says where the image's directories are here. */
export async function shippedOptions(
  places: Readonly<Record<string, string>>,
): Promise<readonly string[]> {
  const dockerfile = await readFile(DOCKERFILE, 'utf8');
  const [, entry = '[]'] =
    /^ENTRYPOINT (\[[\s\S]*?\])$/m.exec(dockerfile.replaceAll('\\\n', '')) ?? [];
  const command = JSON.parse(entry) as readonly string[];
  return command
    .filter((word) => word.startsWith('--'))
    .map((word) => word.replace(/=(.*)$/, (_, path: string) => `=${places[path] ?? path}`));
}
