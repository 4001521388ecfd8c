export * from 'htm/preact/standalone';
